#include "tests/integration/interpreted_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "runtime/interpreter/interpreter.h"

namespace sinter {
namespace {

/// Bytes from the first element of a dense or strided tensor to the end of its last.
size_t reach_in_bytes(const Plan& plan, ValueId id) {
  const Value& value = plan.fusion.values[id];
  return static_cast<size_t>(reach_of(Binding{}.sizes_of(value.shape), strides_of(plan, id)) *
                             bytes_of(value.type));
}

/// Bytes behind a buffer of a plan's kernel.
size_t bytes_behind(const Plan& plan, size_t segment, const BufferArgument& buffer) {
  const TensorSlot slot = slot_of(plan, segment, buffer.value, buffer.use);
  const auto offset = static_cast<size_t>(slot.offset);
  switch (slot.kind) {
    case TensorSlot::Kind::kInput:
      return reach_in_bytes(plan, plan.fusion.inputs[slot.index]) - offset;
    case TensorSlot::Kind::kOutput:
      return reach_in_bytes(plan, plan.fusion.outputs[slot.index]) - offset;
    case TensorSlot::Kind::kWorkspace:
      return static_cast<size_t>(plan.workspace[slot.index].bytes) - offset;
  }
  unreachable();
}

}  // namespace

CompiledPlan interpreted(FakeDriver& driver, Plan plan,
                         const std::function<void(std::span<std::byte>)>& wrong) {
  CompiledPlan out{.plan = std::move(plan), .segments = {}};
  for (size_t i = 0; i < out.plan.segments.size(); ++i) {
    const SegmentPlan& segment = out.plan.segments[i];
    const ProposedSchedule chosen = segment.chosen();
    LoweredKernel lowered = lower(segment.facts, chosen.schedule).value();
    KernelSource source = emit(segment.facts, chosen.schedule).value();
    auto kernel = std::make_shared<CompiledKernel>();
    kernel->entry = source.entry;
    kernel->cubin = "cubin";
    std::vector<size_t> bytes;
    for (const BufferArgument& buffer : source.buffers)
      bytes.push_back(bytes_behind(out.plan, i, buffer));
    driver.set_kernel(
        source.entry, bytes.size() + source.params.size(),
        [lowered, bytes, wrong](const LaunchConfig&, std::span<const uint64_t> arguments) {
          std::vector<LaunchMemory> memory;
          for (size_t b = 0; b < bytes.size(); ++b)
            memory.push_back({.bytes = {std::bit_cast<std::byte*>(arguments[b]), bytes[b]}});
          const auto report = interpret(lowered.kernel, memory, lowered.param_values);
          ASSERT_TRUE(report) << report.error().text();
          EXPECT_TRUE(report->findings.empty());
          if (wrong) wrong(memory.back().bytes);
        });
    out.segments.push_back({.chosen = chosen,
                            .source = std::move(source),
                            .kernel = std::move(kernel),
                            .attempts = {}});
  }
  return out;
}

}  // namespace sinter
