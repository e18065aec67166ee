#include "runtime/host_execution.h"

#include <algorithm>

#include "codegen/cuda_emitter.h"
#include "runtime/oracle/oracle.h"
#include "runtime/oracle/parallel.h"

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

std::vector<HostTensor> sample_inputs(const Fusion& fusion, const Binding& binding, uint64_t seed) {
  std::vector<HostTensor> out(fusion.inputs.size());
  const auto sample = [&](int64_t i) {
    const ValueId input = fusion.inputs[static_cast<size_t>(i)];
    const Value& value = fusion.values[input];
    const auto& op = *fusion.def_as<InputOp>(input);
    RandomSpec spec{.seed = seed * 1000 + input.index};
    if (const int64_t limit = gather_limit(fusion, binding, input); limit > 0) {
      spec.low = 0;
      spec.high = limit - 1;
    }
    out[static_cast<size_t>(i)] =
        HostTensor::random(value.type, binding.sizes_of(value.shape), spec,
                           {.strides = input_strides(fusion, binding, input),
                            .byte_offset = offset_for_alignment(op.alignment)});
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

std::vector<HostTensor> poisoned_outputs(const Fusion& fusion, const Binding& binding) {
  std::vector<HostTensor> out;
  for (const ValueId output : fusion.outputs) {
    const Value& value = fusion.values[output];
    out.push_back(HostTensor::poisoned(value.type, binding.sizes_of(value.shape)));
  }
  return out;
}

namespace {

HostTensor& tensor_in(TensorSlot slot, std::vector<HostTensor>& inputs,
                      std::vector<HostTensor>& outputs, std::vector<HostTensor>& workspace) {
  switch (slot.kind) {
    case TensorSlot::Kind::kInput:
      return inputs[slot.index];
    case TensorSlot::Kind::kOutput:
      return outputs[slot.index];
    case TensorSlot::Kind::kWorkspace:
      return workspace[slot.index];
  }
  unreachable();
}

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
  const Fusion& fusion = facts.fusion;
  if (auto checked = check_inputs(fusion, inputs); !checked) return fail(checked.error());
  HostRun run{.outputs = poisoned_outputs(fusion, Binding{}), .report = {}};
  std::vector<HostTensor> copies(inputs.begin(), inputs.end());
  std::vector<LaunchMemory> memory;
  for (const kir::Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.space != kir::Space::kGlobal) continue;
    const auto input = std::ranges::find(fusion.inputs, buffer.value);
    HostTensor& tensor =
        input != fusion.inputs.end()
            ? copies[static_cast<size_t>(input - fusion.inputs.begin())]
            : run.outputs[static_cast<size_t>(std::ranges::find(fusion.outputs, buffer.value) -
                                              fusion.outputs.begin())];
    memory.push_back(
        {.bytes = tensor.storage(), .origin = tensor.data() - tensor.storage().data()});
  }
  auto report = interpret(kernel.kernel, memory, kernel.param_values, options);
  if (!report) return fail(report.error());
  run.report = std::move(*report);
  return run;
}

Result<HostRun> execute_on_host(const Plan& plan, const Schedule& schedule,
                                std::span<const HostTensor> inputs, const FamilySet& families,
                                const InterpreterOptions& options) {
  if (auto checked = check_inputs(plan.fusion, inputs); !checked) return fail(checked.error());
  Plan own = plan;
  if (auto finished = plan_finish(own, schedule, families); !finished)
    return fail(finished.error());
  HostRun run{.outputs = poisoned_outputs(own.fusion, Binding{}), .report = {}};
  std::vector<HostTensor> copies(inputs.begin(), inputs.end());
  std::vector<HostTensor> workspace;
  for (const WorkspaceTensor& tensor : own.workspace) {
    if (!tensor.value.valid()) {
      workspace.push_back(HostTensor::zeros(DType::kI32, {tensor.bytes / bytes_of(DType::kI32)}));
      continue;
    }
    const DType type = own.fusion.values[tensor.value].type;
    workspace.push_back(HostTensor::poisoned(type, {tensor.bytes / bytes_of(type)}));
  }
  for (size_t i = 0; i < own.segments.size(); ++i) {
    const SegmentPlan& segment = own.segments[i];
    auto kernel = lower(segment.facts, i == 0 ? schedule : segment.chosen().schedule, families);
    if (!kernel) return fail(kernel.error());
    std::vector<LaunchMemory> memory;
    for (const kir::Buffer& buffer : kernel->kernel.buffers) {
      if (buffer.space != kir::Space::kGlobal) continue;
      HostTensor& tensor =
          tensor_in(slot_of(own, i, buffer.value, use_of(buffer)), copies, run.outputs, workspace);
      memory.push_back(
          {.bytes = tensor.storage(), .origin = tensor.data() - tensor.storage().data()});
    }
    auto report = interpret(kernel->kernel, memory, kernel->param_values, options);
    if (!report) return fail(report.error());
    if (i == 0) {
      run.report = std::move(*report);
    } else {
      append_report(run.report, std::move(*report));
    }
  }
  return run;
}

bool HostCheck::passed() const { return mismatches.empty() && report.findings.empty(); }

std::string HostCheck::text() const {
  std::string out;
  for (const Finding& finding : report.findings) out += finding.message + "\n";
  for (const Mismatch& mismatch : mismatches) out += mismatch.text() + "\n";
  return out;
}

namespace {

HostCheck compared(const Fusion& fusion, const Binding& binding, std::span<const HostTensor> inputs,
                   HostRun run) {
  const OracleResult expected = evaluate(fusion, binding, inputs);
  HostCheck check{.report = std::move(run.report), .mismatches = {}};
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const Comparison found = judge(expected, i, run.outputs[i]);
    check.worst_ratio = std::max(check.worst_ratio, found.worst_ratio);
    if (found.mismatch) check.mismatches.push_back(*found.mismatch);
  }
  return check;
}

}  // namespace

Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding,
                                const SegmentFacts& facts, const LoweredKernel& kernel,
                                std::span<const HostTensor> inputs,
                                const InterpreterOptions& options) {
  auto run = execute_on_host(facts, kernel, inputs, options);
  if (!run) return fail(run.error());
  return compared(fusion, binding, inputs, std::move(*run));
}

Result<HostCheck> check_on_host(const Fusion& fusion, const Binding& binding, const Plan& plan,
                                const Schedule& schedule, std::span<const HostTensor> inputs,
                                const FamilySet& families, const InterpreterOptions& options) {
  auto run = execute_on_host(plan, schedule, inputs, families, options);
  if (!run) return fail(run.error());
  return compared(fusion, binding, inputs, std::move(*run));
}

}  // namespace sinter
