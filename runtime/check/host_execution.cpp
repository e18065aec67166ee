#include "runtime/check/host_execution.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "codegen/cuda/cuda_emitter.h"
#include "runtime/check/host_matmul.h"
#include "runtime/compile/parallel.h"
#include "runtime/oracle/oracle.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/text_table.h"

namespace sinter {
namespace {

/// Largest index that gathers along this input may use, if it is one: the shortest axis taken along
/// with it.
int64_t gather_limit(const Fusion& fusion, const Binding& binding, ValueId input) {
  int64_t limit = -1;
  for (const Op& op : fusion.ops) {
    const auto* take = std::get_if<TakeOp>(&op.kind);
    if (take == nullptr) continue;
    // The index may reach the gather through casts and views.
    ValueId index = op.operands[1];
    while (index != input && !fusion.def_of(index).operands.empty())
      index = fusion.def_of(index).operands.front();
    if (index != input) continue;
    const int64_t size =
        binding.sizes_of(fusion.values[op.operands[0]].shape)[static_cast<size_t>(take->axis)];
    limit = limit < 0 ? size : std::min(limit, size);
  }
  return limit;
}

int64_t offset_for_alignment(int64_t alignment) {
  // Storage is aligned to 256 bytes; a promise of less is taken at its word.
  constexpr int64_t kFullAlignment = 16;
  return alignment < kFullAlignment ? alignment : 0;
}

/// Nothing if the tensors are those that the kernel was planned for.
Result<void> check_inputs(const Fusion& fusion, std::span<const HostTensor> inputs) {
  if (inputs.size() != fusion.inputs.size()) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("{} inputs were passed, the fusion has {}", inputs.size(),
                                        fusion.inputs.size()),
                 .remedy = "pass one tensor per input, in their order",
                 .measured = static_cast<int64_t>(inputs.size()),
                 .limit = static_cast<int64_t>(fusion.inputs.size())});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId id = fusion.inputs[i];
    const DType type = fusion.values[id].type;
    const Sizes sizes = Binding{}.sizes_of(fusion.values[id].shape);
    const Sizes strides = input_strides(fusion, Binding{}, id);
    if (inputs[i].type() == type && inputs[i].sizes() == sizes && inputs[i].strides() == strides) {
      continue;
    }
    return fail(
        {.kind = ErrorKind::kInvalidArgument,
         .message = fmt::format("the tensor for {} is {}[{}] with strides [{}], planned was {}[{}] "
                                "with strides [{}]",
                                id, inputs[i].type(), fmt::join(inputs[i].sizes(), ", "),
                                fmt::join(inputs[i].strides(), ", "), type, fmt::join(sizes, ", "),
                                fmt::join(strides, ", ")),
         .remedy = "pass tensors like those of sample_inputs()",
         .values = {id}});
  }
  return {};
}

}  // namespace

std::vector<HostTensor> sample_inputs(const Fusion& fusion, const Binding& binding, uint64_t seed,
                                      SampleData data) {
  std::vector<HostTensor> out(fusion.inputs.size());
  int64_t largest = 0;
  for (const ValueId input : fusion.inputs) {
    largest = std::max(largest, element_count(binding.sizes_of(fusion.values[input].shape)));
  }
  const auto sample = [&](int64_t i) {
    const ValueId input = fusion.inputs[static_cast<size_t>(i)];
    const Value& value = fusion.values[input];
    const auto& op = *fusion.def_as<InputOp>(input);
    RandomSpec spec{.seed = seed * 1000 + input.index};
    const int64_t limit = gather_limit(fusion, binding, input);
    if (limit > 0) {
      spec.low = 0;
      spec.high = limit - 1;
    }
    HostTensor& tensor = out[static_cast<size_t>(i)];
    tensor = HostTensor::random(value.type, binding.sizes_of(value.shape), spec,
                                {.strides = input_strides(fusion, binding, input),
                                 .byte_offset = offset_for_alignment(op.alignment)});
    const bool in_places = data.placement != DataPlacement::kEverywhere;
    if (in_places || tensor.count() == largest || !is_float(value.type))
      draw_sample_data(tensor, data, spec.seed, {.indexed = std::max<int64_t>(limit, 0)});
  };
  // Small tensors are drawn sooner than a thread starts.
  constexpr int64_t kElementsPerThread = int64_t{1} << 16;
  int64_t elements = 0;
  for (const ValueId input : fusion.inputs)
    elements += element_count(binding.sizes_of(fusion.values[input].shape));
  const auto count = static_cast<int64_t>(out.size());
  for_each_range(count, 1, elements < kElementsPerThread ? 1 : 0,
                 [&](int64_t i, int64_t) { sample(i); });
  return out;
}

namespace {

std::vector<HostTensor> poisoned(const Fusion& fusion, const Binding& binding,
                                 std::span<const ValueId> outputs) {
  std::vector<HostTensor> out;
  for (const ValueId output : outputs) {
    const Value& value = fusion.values[output];
    out.push_back(HostTensor::poisoned(
        value.type, binding.sizes_of(value.shape),
        {.strides = output_strides(fusion, binding, output),
         .byte_offset = offset_for_alignment(fusion.layout_of(output).alignment)}));
  }
  return out;
}

}  // namespace

std::vector<HostTensor> poisoned_outputs(const Fusion& fusion, const Binding& binding) {
  return poisoned(fusion, binding, fusion.outputs);
}

namespace {

/// What the buffers of a kernel hold in an execution on the host.
class HostArguments {
 public:
  /// `lowered` outlives it.
  explicit HostArguments(const LoweredKernel& lowered) : lowered_(lowered) {}

  /// For every tensor what `memory_of` says; integers among the arguments lie here.
  std::vector<LaunchMemory> memory(
      const std::function<LaunchMemory(ValueId, const kir::Buffer&)>& memory_of) {
    std::vector<LaunchMemory> out;
    size_t next = 0;
    for (const kir::Buffer& buffer : lowered_.kernel.buffers) {
      if (buffer.space == kir::Space::kShared) continue;
      if (buffer.space == kir::Space::kArgument) {
        integers_.push_back(argument_bytes(buffer, lowered_.argument_values.at(next++)));
        out.push_back({.bytes = integers_.back(), .origin = 0});
      } else if (buffer.is_table()) {
        for (const ValueId value : buffer.values) out.push_back(memory_of(value, buffer));
      } else {
        out.push_back(memory_of(buffer.value, buffer));
      }
    }
    return out;
  }

 private:
  const LoweredKernel& lowered_;
  std::vector<std::vector<std::byte>> integers_;
};

/// Adds what is wrong with a further kernel to the report of the first.
void append_report(InterpreterReport& all, InterpreterReport more) {
  all.findings.insert(all.findings.end(), std::make_move_iterator(more.findings.begin()),
                      std::make_move_iterator(more.findings.end()));
  all.findings_left_out += more.findings_left_out;
}

}  // namespace

Result<HostRun> execute_on_host(const SegmentFacts& facts, const LoweredKernel& kernel,
                                std::span<const HostTensor> inputs,
                                const InterpreterOptions& options) {
  return as_result([&]() -> Result<HostRun> {
    const Fusion& fusion = facts.fusion;
    if (auto checked = check_inputs(fusion, inputs); !checked) return fail(checked.error());
    HostRun run{.outputs = poisoned_outputs(fusion, Binding{}), .report = {}};
    std::vector<HostTensor> copies(inputs.begin(), inputs.end());
    HostArguments arguments(kernel);
    SINTER_CHECK(facts.in_place.empty(), "outputs in place of inputs need a plan");
    const auto memory_of = [&](ValueId value, const kir::Buffer&) -> LaunchMemory {
      const auto input = std::ranges::find(fusion.inputs, value);
      HostTensor& tensor =
          input != fusion.inputs.end()
              ? copies[static_cast<size_t>(input - fusion.inputs.begin())]
              : run.outputs[static_cast<size_t>(std::ranges::find(fusion.outputs, value) -
                                                fusion.outputs.begin())];
      return {.bytes = tensor.storage(), .origin = tensor.data() - tensor.storage().data()};
    };
    const std::vector<LaunchMemory> memory = arguments.memory(memory_of);
    auto report = interpret(kernel.kernel, memory, kernel.param_values, options);
    if (!report) return fail(report.error());
    run.report = std::move(*report);
    return run;
  });
}

namespace {

/// Tensors of a plan's execution on the host.
class HostMemory {
 public:
  HostMemory(const Plan& plan, std::span<const HostTensor> inputs)
      : plan_(plan),
        slots_(plan),
        inputs_(inputs.begin(), inputs.end()),
        outputs_(poisoned(plan.fusion, Binding{}, plan.caller_outputs())),
        workspace_(HostTensor::poisoned(DType::kI8, {plan.workspace_bytes})) {
    // Between the elements of what is overwritten there is what tells of writes there.
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const TensorSlot slot = slots_.of(plan_.fusion.outputs[i]);
      if (slot.kind != TensorSlot::Kind::kInput) continue;
      HostTensor& input = inputs_[slot.index];
      HostTensor copy = outputs_[i];
      for (int64_t at = 0; at < input.count(); ++at) copy.set_bits(at, input.bits(at));
      input = std::move(copy);
    }
  }

  [[nodiscard]] const TensorSlots& slots() const { return slots_; }

  /// Of a kernel's buffer. Counters and messages are 0 when it starts.
  LaunchMemory of(TensorSlot slot) {
    if (slot.kind != TensorSlot::Kind::kWorkspace) {
      HostTensor& tensor =
          slot.kind == TensorSlot::Kind::kInput ? inputs_[slot.index] : outputs_[slot.index];
      return {.bytes = tensor.storage(),
              .origin = tensor.data() - tensor.storage().data() + slot.offset};
    }
    const WorkspaceTensor& tensor = plan_.workspace[slot.index];
    const std::span<std::byte> bytes = workspace_.storage().subspan(
        static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
    if (tensor.is_zero_between_launches()) std::ranges::fill(bytes, std::byte{0});
    return {.bytes = bytes, .origin = slot.offset};
  }

  /// A copy of what a value of the plan holds, or poison.
  enum class Content : uint8_t { kKept, kPoison };
  HostTensor tensor(ValueId id, Content content) {
    const Value& value = plan_.fusion.values[id];
    HostTensor out = HostTensor::poisoned(value.type, Binding{}.sizes_of(value.shape),
                                          {.strides = slots_.strides_of(id)});
    if (content == Content::kKept) std::ranges::copy(bytes_of_tensor(id, out), out.data());
    return out;
  }
  /// Nothing but the elements: between them may lie those of other values.
  void store(ValueId id, const HostTensor& tensor) {
    HostTensor whole = tensor;
    const std::span<std::byte> bytes = bytes_of_tensor(id, tensor);
    std::ranges::copy(bytes, whole.data());
    for (int64_t i = 0; i < tensor.count(); ++i) whole.set_bits(i, tensor.bits(i));
    std::ranges::copy(whole.storage(), bytes.begin());
  }

  /// What lies in an input comes from there.
  std::vector<HostTensor> take_outputs() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const TensorSlot slot = slots_.of(plan_.fusion.outputs[i]);
      if (slot.kind == TensorSlot::Kind::kInput) outputs_[i] = inputs_[slot.index];
    }
    return std::move(outputs_);
  }

 private:
  /// From the first to the last element of a value that lies like `tensor`.
  std::span<std::byte> bytes_of_tensor(ValueId id, const HostTensor& tensor) {
    const LaunchMemory memory = of(slots_.of(id));
    return memory.bytes.subspan(static_cast<size_t>(memory.origin), tensor.storage().size());
  }

  const Plan& plan_;
  const TensorSlots slots_;
  std::vector<HostTensor> inputs_;
  std::vector<HostTensor> outputs_;
  HostTensor workspace_;
};

Result<void> run_call(const Plan& plan, const ExternalCall& call, const HostCall& run,
                      HostMemory& memory) {
  const Op& op = plan.fusion.ops[call.op];
  const auto& external = std::get<ExternalOp>(op.kind);
  if (!run) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("nothing runs the external call '{}'", external.name),
                 .remedy = "pass a function for external calls",
                 .ops = {call.op}});
  }
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;
  for (const ValueId id : op.operands)
    inputs.push_back(memory.tensor(id, HostMemory::Content::kKept));
  for (const ValueId id : op.results)
    outputs.push_back(memory.tensor(id, HostMemory::Content::kPoison));
  run(external, inputs, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) memory.store(op.results[i], outputs[i]);
  return {};
}

}  // namespace

Result<HostRun> execute_on_host(const Plan& plan, const Schedule& schedule,
                                std::span<const HostTensor> inputs, const FamilySet& families,
                                const InterpreterOptions& options) {
  return as_result([&]() -> Result<HostRun> {
    Plan own = plan;
    if (auto finished = plan_finish(own, KernelId{0}, schedule, families); !finished)
      return fail(finished.error());
    ProposedSchedule& chosen = own.kernels.front().candidates.front();
    chosen.schedule = schedule;
    const Family* family = find_family(families, schedule.family);
    if (family != nullptr && family->estimate) {
      if (auto estimate = family->estimate(own.kernels.front().facts, schedule, own.limits)) {
        chosen.estimate = *estimate;
        check_plan(own);
      }
    }
    return execute_on_host(own, inputs, families, options);
  });
}

Result<HostRun> execute_on_host(const Plan& plan, std::span<const HostTensor> inputs,
                                const FamilySet& families, const InterpreterOptions& options,
                                const HostCalls& calls) {
  return as_result([&]() -> Result<HostRun> {
    if (auto checked = check_inputs(plan.fusion, inputs); !checked) return fail(checked.error());
    HostMemory memory(plan, inputs);
    HostRun run;
    bool is_first = true;
    for (const PlanStep& step : plan.steps()) {
      if (const auto* call = std::get_if<CallId>(&step)) {
        if (auto ran = run_call(plan, plan.externals[*call], calls.run, memory); !ran)
          return fail(ran.error());
        continue;
      }
      const auto id = std::get<KernelId>(step);
      const KernelPlan& segment = plan.kernels[id];
      if (is_library_call(families, segment.chosen().schedule.family)) {
        auto call = emit(segment.facts, segment.chosen().schedule, families);
        if (!call) return fail(call.error());
        std::vector<LaunchMemory> tensors;
        for (const BufferArgument& buffer : call->buffers)
          tensors.push_back(memory.of(memory.slots().of(id, buffer.value, buffer.use)));
        multiply_on_host(*call->call, tensors);
        continue;
      }
      auto kernel = lower(segment.facts, segment.chosen().schedule, families);
      if (!kernel) return fail(kernel.error());
      HostArguments arguments(*kernel);
      const std::vector<LaunchMemory> buffers =
          arguments.memory([&](ValueId value, const kir::Buffer& buffer) {
            return memory.of(memory.slots().of(id, value, use_of(buffer)));
          });
      auto report = interpret(kernel->kernel, buffers, kernel->param_values, options);
      if (!report) return fail(report.error());
      if (is_first) {
        run.report = std::move(*report);
      } else {
        append_report(run.report, std::move(*report));
      }
      is_first = false;
    }
    std::vector<std::span<const std::byte>> kept;
    for (const ValueId id : plan.kept_indices())
      run.kept_indices.push_back(memory.tensor(id, HostMemory::Content::kKept));
    for (const HostTensor& indices : run.kept_indices) {
      const int64_t bytes = indices.count() * bytes_of(indices.type());
      kept.emplace_back(indices.data(), static_cast<size_t>(bytes));
    }
    run.outside = find_outside_indices(plan, kept);
    run.outputs = memory.take_outputs();
    return run;
  });
}

bool HostCheck::passed() const { return mismatches.empty() && report.findings.empty(); }

std::string HostCheck::text() const {
  std::string out = data.empty() ? "" : fmt::format("on sample data '{}':\n", data);
  for (const Finding& finding : report.findings) out += finding.message + "\n";
  for (const Mismatch& mismatch : mismatches) out += mismatch.text() + "\n";
  return out;
}

namespace {

HostCheck compared(const Fusion& fusion, const Binding& binding, std::span<const HostTensor> inputs,
                   HostRun run, const ExternalFunction& external) {
  // Indices that the plan keeps are outputs of this graph.
  const bool keeps = !run.kept_indices.empty();
  const OracleResult expected = evaluate(keeps ? with_kept_indices(fusion, binding).fusion : fusion,
                                         binding, inputs, {.external = external});
  HostCheck check{
      .report = std::move(run.report), .mismatches = {}, .outside = std::move(run.outside)};
  std::ranges::move(run.kept_indices, std::back_inserter(run.outputs));
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const Comparison found = judge(expected, i, run.outputs[i]);
    check.worst_ratio = std::max(check.worst_ratio, found.worst_ratio);
    if (found.mismatch) check.mismatches.push_back(*found.mismatch);
    if (!run.outputs[i].padding_intact())
      check.report.findings.push_back(
          {.kind = FindingKind::kGlobalOutOfBounds,
           .message = fmt::format("a kernel writes between the elements of output {}", i)});
  }
  return check;
}

}  // namespace

int64_t tensor_elements(const Fusion& fusion, const Binding& binding) {
  int64_t elements = 0;
  for (const auto& list : {fusion.inputs, fusion.outputs}) {
    for (const ValueId id : list)
      elements += element_count(binding.sizes_of(fusion.values[id].shape));
  }
  return elements;
}

Result<void> check_is_possible(const Fusion& fusion, const Plan& plan) {
  if (!plan.externals.empty()) {
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("nothing says what the external calls of '{}' compute",
                                        plan.fusion.name),
                 .remedy = "check the graph with check_on_host() and functions for its calls",
                 .ops = {plan.externals.front().op}});
  }
  // Every tensor lies in host memory, and beside every element of an output its expected value and
  // bound.
  constexpr double kOracleBytes = 2 * sizeof(double);
  double bytes = 0.0;
  const auto add = [&](ValueId id, double extra) {
    const Value& value = fusion.values[id];
    double count = 1.0;
    for (const int64_t size : plan.binding.sizes_of(value.shape))
      count *= static_cast<double>(size);
    bytes += count * (static_cast<double>(bytes_of(value.type)) + extra);
  };
  for (const ValueId input : fusion.inputs) add(input, 0.0);
  for (const ValueId output : fusion.outputs) add(output, kOracleBytes);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return {};
  return fail({.kind = ErrorKind::kResourceExhausted,
               .message = fmt::format("the check takes {} of memory at least, this machine has {}",
                                      bytes_text(bytes), bytes_text(memory)),
               .remedy = "choose smaller extents"});
}

Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding,
                                const SegmentFacts& facts, const LoweredKernel& kernel,
                                std::span<const HostTensor> inputs,
                                const InterpreterOptions& options) {
  return as_result([&]() -> Result<HostCheck> {
    auto run = execute_on_host(facts, kernel, inputs, options);
    if (!run) return fail(run.error());
    return compared(fusion, binding, inputs, std::move(*run), {});
  });
}

Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding, const Plan& plan,
                                std::span<const HostTensor> inputs, const FamilySet& families,
                                const InterpreterOptions& options, const HostCalls& calls) {
  return as_result([&]() -> Result<HostCheck> {
    auto run = execute_on_host(plan, inputs, families, options, calls);
    if (!run) return fail(run.error());
    return compared(fusion, binding, inputs, std::move(*run), calls.evaluate);
  });
}

Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding, const Plan& plan,
                                uint64_t seed, const FamilySet& families,
                                const InterpreterOptions& options, const HostCalls& calls,
                                std::span<const SampleData> data) {
  return as_result([&]() -> Result<HostCheck> {
    HostCheck last;
    double worst_ratio = 0.0;
    size_t looked_at = 0;
    for (const SampleData& set : data) {
      auto check = check_on_host(fusion, binding, plan, sample_inputs(fusion, binding, seed, set),
                                 families, options, calls);
      if (!check) return check;
      last = std::move(*check);
      worst_ratio = std::max(worst_ratio, last.worst_ratio);
      ++looked_at;
      if (last.passed()) continue;
      last.data = name_of(set);
      break;
    }
    last.worst_ratio = worst_ratio;
    last.data_sets = looked_at;
    return last;
  });
}

Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding, const Plan& plan,
                                const Schedule& schedule, std::span<const HostTensor> inputs,
                                const FamilySet& families, const InterpreterOptions& options) {
  return as_result([&]() -> Result<HostCheck> {
    auto run = execute_on_host(plan, schedule, inputs, families, options);
    if (!run) return fail(run.error());
    return compared(fusion, binding, inputs, std::move(*run), {});
  });
}

}  // namespace sinter
