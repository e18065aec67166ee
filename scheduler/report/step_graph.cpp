#include "scheduler/report/step_graph.h"

#include <algorithm>
#include <map>

#include "scheduler/plan/tensor_slots.h"

namespace sinter {
namespace {

int64_t bytes_of_value(const Fusion& fusion, ValueId value) {
  const Value& info = fusion.values[value];
  return element_count(info.shape) * bytes_of(info.type);
}

class Steps {
 public:
  explicit Steps(const Plan& plan)
      : plan_(plan), slots_(plan), is_output_(plan.fusion.values.size()) {
    for (const ValueId output : plan.fusion.outputs) is_output_[output] = 1;
    for (size_t i = 0; i < plan.workspace.size(); ++i) {
      const WorkspaceTensor& tensor = plan.workspace[i];
      if (tensor.holds == WorkspaceTensor::Holds::kPartials)
        partials_of_[tensor.writer].push_back(i);
    }
  }

  StepGraph run() {
    out_.steps = plan_.steps();
    add_tensors();
    for (const StepId step : out_.steps.ids()) {
      if (const auto* call = std::get_if<CallId>(&out_.steps[step])) {
        add_call(step, plan_.fusion.ops[plan_.externals[*call].op]);
      } else {
        add_kernel(step, std::get<KernelId>(out_.steps[step]));
      }
    }
    return std::move(out_);
  }

 private:
  void add_tensors() {
    const Fusion& fusion = plan_.fusion;
    for (const ValueId value : fusion.inputs)
      add({TensorSlot::Kind::kInput, inputs_++},
          {.value = value, .bytes = bytes_of_value(fusion, value), .is_input = true});
    for (size_t i = 0; i < fusion.outputs.size(); ++i) {
      const ValueId value = fusion.outputs[i];
      const TensorSlot slot = own_slot(value, slots_.of(value));
      if (const auto known = at_.find(key(slot)); known != at_.end()) {
        out_.tensors[known->second].is_output = true;
        continue;
      }
      add(slot, {.value = value, .bytes = bytes_of_value(fusion, value), .is_output = true});
    }
    for (size_t i = 0; i < plan_.workspace.size(); ++i) {
      const WorkspaceTensor& tensor = plan_.workspace[i];
      if (tensor.own() || at_.contains({TensorSlot::Kind::kWorkspace, i})) continue;
      const bool is_value = tensor.holds == WorkspaceTensor::Holds::kValue;
      add({TensorSlot::Kind::kWorkspace, i},
          {.value = tensor.value,
           .holds = is_value ? PassedTensor::Holds::kValue : PassedTensor::Holds::kPartials,
           .bytes = tensor.bytes});
    }
  }

  using Key = std::pair<TensorSlot::Kind, size_t>;
  static Key key(const TensorSlot& slot) { return {slot.kind, slot.index}; }
  void add(const TensorSlot& slot, PassedTensor tensor) {
    at_[key(slot)] = out_.tensors.size();
    out_.tensors.push_back(std::move(tensor));
  }

  /// An output that takes over an input's memory counts as a separate tensor here.
  [[nodiscard]] TensorSlot own_slot(ValueId value, const TensorSlot& slot) const {
    if (slot.kind != TensorSlot::Kind::kInput || !plan_.placements.contains(value)) return slot;
    const Fusion& fusion = plan_.fusion;
    const ValueId input = fusion.inputs[slot.index];
    const auto layout = std::ranges::find(fusion.layouts, input, &OutputLayout::alias);
    SINTER_CHECK(layout != fusion.layouts.end(), "{} lies in the input {}", value, input);
    return {TensorSlot::Kind::kOutput, static_cast<size_t>(layout - fusion.layouts.begin())};
  }

  void add_call(StepId step, const Op& op) {
    for (const ValueId operand : op.operands) read(step, own_slot(operand, slots_.of(operand)));
    for (const ValueId result : op.results)
      write(step, own_slot(result, slots_.of(result)), writes_of(result));
  }

  void add_kernel(StepId step, KernelId segment) {
    const KernelPlan& kernel = plan_.kernels[segment];
    const Fusion& fusion = kernel.facts.fusion;
    // Values that depend on partial results are written by the kernel that finishes them.
    const bool is_finished = plan_.finish_of(segment).has_value();
    const auto in_plan = [&](ValueId value) {
      return kernel.in_plan.empty() ? value : kernel.in_plan.at(value);
    };
    for (const ValueId input : fusion.inputs)
      read(step, own_slot(in_plan(input), slots_.of(segment, input, BufferUse::kRead)));
    for (const ValueId output : fusion.outputs) {
      if (is_finished && kernel.facts.is_after_rows(output)) continue;
      const ValueId value = in_plan(output);
      write(step, own_slot(value, slots_.of(segment, output, BufferUse::kWrite)), writes_of(value));
    }
    // If the output is computed from partial results, these are not among the outputs themselves.
    const auto partials = partials_of_.find(segment);
    if (partials == partials_of_.end()) return;
    for (const size_t i : partials->second)
      write(step, {TensorSlot::Kind::kWorkspace, i}, Writes::kAll);
  }

  void read(StepId step, const TensorSlot& slot) {
    std::vector<StepId>& readers = out_.tensors[at_.at(key(slot))].readers;
    if (readers.empty() || readers.back() != step) readers.push_back(step);
  }
  enum class Writes : uint8_t { kAll, kPart };
  [[nodiscard]] Writes writes_of(ValueId value) const {
    const bool is_part = plan_.placements.contains(value) && is_output_[value] == 0;
    return is_part ? Writes::kPart : Writes::kAll;
  }
  /// Of steps that write all of a tensor, the last one counts.
  void write(StepId step, const TensorSlot& slot, Writes what) {
    const auto known = at_.find(key(slot));
    if (known == at_.end() || out_.tensors[known->second].is_input) return;
    std::vector<StepId>& writers = out_.tensors[known->second].writers;
    if (what == Writes::kAll) writers.clear();
    if (writers.empty() || writers.back() != step) writers.push_back(step);
  }

  const Plan& plan_;
  const TensorSlots slots_;
  IdMap<ValueId, uint8_t> is_output_;
  std::map<PlanStep, std::vector<size_t>> partials_of_;  ///< Indices in the workspace, by writer.
  StepGraph out_;
  size_t inputs_ = 0;
  std::map<Key, size_t> at_;
};

}  // namespace

StepGraph step_graph(const Plan& plan) { return Steps(plan).run(); }

std::string name_of(const Plan& plan, const PassedTensor& tensor) {
  const std::string& given = plan.fusion.values[tensor.value].name;
  const std::string name = given.empty() ? fmt::format("{}", tensor.value) : given;
  return tensor.holds == PassedTensor::Holds::kPartials ? "partials of " + name : name;
}

std::string ops_text(const KernelPlan& kernel) {
  std::map<std::string, int> counts;
  for (const Op& op : kernel.facts.fusion.ops) {
    const bool is_left_out = std::holds_alternative<InputOp>(op.kind) ||
                             std::holds_alternative<ConstantOp>(op.kind) ||
                             std::holds_alternative<BroadcastOp>(op.kind);
    if (!is_left_out) ++counts[std::string(text_of(op.kind))];
  }
  std::string out;
  for (const auto& [name, count] : counts) {
    out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
    if (count > 1) out += fmt::format(" x{}", count);
  }
  return out;
}

}  // namespace sinter
