#include "tests/integration/interpreted_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/interpreter/interpreter.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {
namespace {

/// Bytes from the first element of a dense or strided tensor to the end of its last.
size_t reach_in_bytes(const Plan& plan, ValueId id) {
  const Value& value = plan.fusion.values[id];
  return static_cast<size_t>(reach_of(Binding{}.sizes_of(value.shape), strides_of(plan, id)) *
                             bytes_of(value.type));
}

/// Bytes behind a buffer of a plan's kernel.
size_t bytes_behind(const Plan& plan, KernelId kernel, const BufferArgument& buffer) {
  const TensorSlot slot = slot_of(plan, kernel, buffer.value, buffer.use);
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

/// Where a launch says that a kernel's buffers lie. `bytes` are those of its arguments and then of
/// the tensors in its tables.
std::vector<LaunchMemory> memory_of(const kir::Kernel& kernel, std::span<const size_t> bytes,
                                    std::span<const uint64_t> arguments) {
  const kir::ArgumentLayout layout = kir::argument_layout(kernel);
  const auto at = [](uint64_t address, size_t size) {
    return LaunchMemory{.bytes = {std::bit_cast<std::byte*>(address), size}};
  };
  const auto tables = std::ranges::count_if(
      kernel.buffers, [](const kir::Buffer& buffer) { return buffer.is_table(); });
  const auto globals = std::ranges::count(kernel.buffers, kir::Space::kGlobal, &kir::Buffer::space);
  size_t next = 0;
  auto next_in_tables = static_cast<size_t>(globals - tables);
  std::vector<LaunchMemory> out;
  for (uint32_t i = 0; i < kernel.buffers.size(); ++i) {
    const kir::Buffer& buffer = kernel.buffers[kir::BufferId{i}];
    const uint64_t table =
        arguments.back() + static_cast<uint64_t>(layout.offsets[kir::BufferId{i}]);
    if (buffer.space == kir::Space::kArgument) {
      out.push_back(at(table, static_cast<size_t>(buffer.count * bytes_of(buffer.type))));
    } else if (buffer.is_table()) {
      for (size_t k = 0; k < buffer.values.size(); ++k) {
        uint64_t address = 0;
        std::memcpy(&address, std::bit_cast<const std::byte*>(table) + k * sizeof address,
                    sizeof address);
        out.push_back(at(address, bytes[next_in_tables++]));
      }
    } else if (buffer.space == kir::Space::kGlobal) {
      out.push_back(at(arguments[next], bytes[next]));
      ++next;
    }
  }
  return out;
}

}  // namespace

CompiledPlan interpreted(FakeDriver& driver, Plan plan,
                         const std::function<void(std::span<std::byte>)>& wrong) {
  CompiledPlan out{.plan = std::move(plan), .kernels = {}};
  for (const KernelId id : out.plan.kernels.ids()) {
    const KernelPlan& segment = out.plan.kernels[id];
    const ProposedSchedule chosen = segment.chosen();
    LoweredKernel lowered = lower(segment.facts, chosen.schedule).value();
    KernelSource source = emit(segment.facts, chosen.schedule).value();
    auto kernel = std::make_shared<CompiledKernel>();
    kernel->entry = source.entry;
    kernel->cubin = "cubin";
    std::vector<size_t> bytes;
    for (const BufferArgument& buffer : source.buffers)
      bytes.push_back(bytes_behind(out.plan, id, buffer));
    for (const TableEntry& entry : source.table_entries)
      bytes.push_back(bytes_behind(out.plan, id, entry.tensor));
    driver.set_kernel(
        source.entry, source.buffers.size() + source.params.size(),
        [lowered, bytes, wrong](const LaunchConfig&, std::span<const uint64_t> arguments) {
          std::vector<LaunchMemory> memory = memory_of(lowered.kernel, bytes, arguments);
          const auto report = interpret(lowered.kernel, memory, lowered.param_values);
          ASSERT_TRUE(report) << report.error().text();
          EXPECT_TRUE(report->findings.empty()) << report->text(lowered.kernel);
          if (wrong) wrong(memory.back().bytes);
        },
        source.table.size());
    out.kernels.push_back({.chosen = chosen,
                           .source = std::move(source),
                           .kernel = std::move(kernel),
                           .attempts = {}});
  }
  return out;
}

ExternalCallback on_host_memory(HostCall call) {
  return [call = std::move(call)](const ExternalRequest& request) -> Result<void> {
    const auto bytes = [](const ExternalTensor& tensor) {
      int64_t elements = 1;
      for (const int64_t size : tensor.sizes) elements *= size;
      return std::span(std::bit_cast<std::byte*>(tensor.address),
                       static_cast<size_t>(elements * bytes_of(tensor.type)));
    };
    const auto poisoned = [](const ExternalTensor& tensor) {
      return HostTensor::poisoned(tensor.type, {tensor.sizes.begin(), tensor.sizes.end()});
    };
    std::vector<HostTensor> inputs;
    std::vector<HostTensor> outputs;
    for (const ExternalTensor& tensor : request.inputs) {
      inputs.push_back(poisoned(tensor));
      std::ranges::copy(bytes(tensor), inputs.back().storage().begin());
    }
    for (const ExternalTensor& tensor : request.outputs) outputs.push_back(poisoned(tensor));
    call(*request.op, inputs, outputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      std::ranges::copy(outputs[i].storage(), bytes(request.outputs[i]).begin());
    return {};
  };
}

}  // namespace sinter
