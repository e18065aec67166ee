#include "scheduler/plan/workspace.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "fusion_ir/integers.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {
namespace {

/// Steps from the one that writes a tensor to the last that reads it. Tensors that are read after
/// the execution are needed to the end.
struct Lifetime {
  StepId first;
  StepId last;
};

std::vector<Lifetime> lifetimes(const Plan& plan) {
  const IdVector<StepId, PlanStep> steps = plan.steps();
  std::map<PlanStep, StepId> step_of;
  std::map<ValueId, Lifetime> used;  // By tensor; several steps may write parts of one.
  const auto use = [&](ValueId value, StepId step) {
    used.try_emplace(tensor_of(plan, value), Lifetime{step, step}).first->second.last = step;
  };
  for (const StepId step : steps.ids()) {
    step_of.emplace(steps[step], step);
    if (const auto* call = std::get_if<CallId>(&steps[step])) {
      const Op& op = plan.fusion.ops[plan.externals[*call].op];
      for (const ValueId operand : op.operands) use(operand, step);
      for (const ValueId result : op.results) use(result, step);
      continue;
    }
    const KernelPlan& kernel = plan.kernels[std::get<KernelId>(steps[step])];
    const auto in_plan = [&](ValueId value) {
      return kernel.in_plan.empty() ? value : kernel.in_plan.at(value);
    };
    for (const ValueId input : kernel.facts.fusion.inputs) use(in_plan(input), step);
    for (const ValueId output : kernel.facts.fusion.outputs) use(in_plan(output), step);
  }
  const StepId end = steps.next_id();
  for (const ValueId kept : plan.kept_indices()) used.at(kept).last = {end.index - 1};
  std::vector<Lifetime> out;
  for (const WorkspaceTensor& tensor : plan.workspace) {
    if (tensor.holds == WorkspaceTensor::Holds::kValue) {
      out.push_back(used.at(tensor.value));
      continue;
    }
    const StepId written = step_of.at(tensor.writer);
    // The next step finishes partial results.
    const uint32_t last = tensor.own() ? written.index : written.index + 1;
    out.push_back({written, {std::min(last, end.index - 1)}});
  }
  return out;
}

/// Finds the lifetimes of a set that share a step with a given one. Takes time linear in their
/// number and in the steps of the given one.
class LivesAtOnce {
 public:
  explicit LivesAtOnce(size_t steps) : begins_(steps), over_(2 * steps), steps_(steps) {}

  void add(size_t item, const Lifetime& life) {
    begins_[life.first.index].push_back(item);
    for (size_t low = life.first.index + 1 + steps_, high = life.last.index + 1 + steps_;
         low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) over_[low++].push_back(item);
      if (high % 2 == 1) over_[--high].push_back(item);
    }
  }

  /// Each once, in no particular order.
  [[nodiscard]] std::vector<size_t> with(const Lifetime& life) const {
    std::vector<size_t> out;
    const auto add = [&](const std::vector<size_t>& items) {
      out.insert(out.end(), items.begin(), items.end());
    };
    for (size_t node = life.first.index + steps_; node > 0; node /= 2) add(over_[node]);
    for (size_t step = life.first.index; step <= life.last.index; ++step) add(begins_[step]);
    return out;
  }

 private:
  std::vector<std::vector<size_t>> begins_;  ///< By step.
  /// For each node of a segment tree over the steps, whose leaves are the last `steps_` nodes: the
  /// items that live in all steps below the node. Each step of an item except its first lies below
  /// exactly one node that has the item.
  std::vector<std::vector<size_t>> over_;
  size_t steps_;
};

}  // namespace

void place_workspace(Plan& plan) {
  const std::vector<Lifetime> lives = lifetimes(plan);
  std::vector<size_t> order(plan.workspace.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](size_t i) { return plan.workspace[i].bytes; });
  plan.workspace_bytes = 0;
  LivesAtOnce placed(std::max<size_t>(plan.steps().size(), 1));
  for (const size_t i : order) {
    WorkspaceTensor& tensor = plan.workspace[i];
    const int64_t bytes = rounded_up(tensor.bytes, kWorkspaceAlignment);
    int64_t offset = 0;
    std::vector<size_t> at_once = placed.with(lives[i]);
    std::ranges::sort(at_once, {}, [&](size_t other) { return plan.workspace[other].offset; });
    for (const size_t other : at_once) {
      const WorkspaceTensor& beside = plan.workspace[other];
      if (beside.offset >= offset + bytes) break;
      offset = std::max(offset, beside.offset + rounded_up(beside.bytes, kWorkspaceAlignment));
    }
    tensor.offset = offset;
    placed.add(i, lives[i]);
    plan.workspace_bytes = std::max(plan.workspace_bytes, offset + bytes);
  }
}

}  // namespace sinter
