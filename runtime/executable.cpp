#include "runtime/executable.h"

#include <algorithm>
#include <array>

namespace sinter {
namespace {

constexpr int64_t kWorkspaceUnit = 256;

int64_t reach(const Sizes& sizes, const Sizes& strides, int64_t element_bytes) {
  int64_t last = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 0) return 0;
    last += (sizes[axis] - 1) * strides[axis];
  }
  return (last + 1) * element_bytes;
}

Error bad_tensor(ValueId value, std::string message, std::string remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = std::move(remedy),
          .values = {value}};
}

}  // namespace

Result<Executable> Executable::prepare(CompiledPlan compiled, DeviceDriver& driver,
                                       const PrepareOptions& options) {
  auto context = DeviceContext::retain(driver, options.device);
  if (!context) return fail(context.error());
  Executable out(driver, std::move(*context), options);
  auto current = CurrentContext::enter(driver, out.context_);
  if (!current) return fail(current.error());

  out.compiled_ = std::make_unique<const CompiledPlan>(std::move(compiled));
  const Fusion& fusion = out.compiled_->plan.fusion;
  const Binding binding{};  // The planned fusion is specialised.
  const auto expect = [&](ValueId value, Sizes strides, int64_t alignment) {
    Expected expected{.value = value,
                      .type = fusion.values[value].type,
                      .sizes = binding.sizes_of(fusion.values[value].shape),
                      .strides = std::move(strides),
                      .dense = {},
                      .alignment = alignment};
    expected.dense = dense_strides(expected.sizes);
    expected.bytes = reach(expected.sizes, expected.strides, bytes_of(expected.type));
    return expected;
  };
  for (const ValueId input : fusion.inputs) {
    out.inputs_.push_back(expect(input, input_strides(fusion, binding, input),
                                 fusion.def_as<InputOp>(input)->alignment));
  }
  constexpr int64_t kOutputAlignment = 16;
  for (const ValueId output : fusion.outputs) {
    out.outputs_.push_back(expect(
        output, dense_strides(binding.sizes_of(fusion.values[output].shape)), kOutputAlignment));
  }
  const std::vector<WorkspaceTensor>& workspace = out.compiled_->plan.workspace;
  for (const WorkspaceTensor& tensor : workspace) {
    if (!tensor.value.valid()) {
      out.counter_bytes_ = tensor.bytes;
      out.counter_argument_ = static_cast<uint32_t>(fusion.inputs.size() + fusion.outputs.size() +
                                                    out.workspace_offsets_.size());
    }
    out.workspace_offsets_.push_back(out.workspace_bytes_);
    out.workspace_bytes_ += (tensor.bytes + kWorkspaceUnit - 1) / kWorkspaceUnit * kWorkspaceUnit;
  }
  if (out.counter_bytes_ > 0) {
    auto counters = TicketCounters::create(driver, out.counter_bytes_);
    if (!counters) return fail(counters.error());
    out.counters_.emplace(std::move(*counters));
  }
  for (size_t i = 0; i < out.compiled_->segments.size(); ++i) {
    const CompiledSegment& segment = out.compiled_->segments[i];
    auto kernel = LoadedKernel::load(
        driver, *segment.kernel, segment.source.dynamic_shared ? segment.source.shared_bytes : 0,
        segment.source.cluster_blocks);
    if (!kernel) return fail(kernel.error());
    auto launch = PreparedLaunch::prepare(driver, kernel->function(), segment.source);
    if (!launch) return fail(launch.error());
    std::vector<uint32_t> arguments;
    for (const BufferArgument& buffer : segment.source.buffers) {
      const TensorSlot slot = slot_of(out.compiled_->plan, i, buffer.value, buffer.use);
      const size_t first = slot.kind == TensorSlot::Kind::kInput ? 0
                           : slot.kind == TensorSlot::Kind::kOutput
                               ? fusion.inputs.size()
                               : fusion.inputs.size() + fusion.outputs.size();
      arguments.push_back(static_cast<uint32_t>(first + slot.index));
    }
    out.segments_.push_back({std::move(*kernel), *launch, std::move(arguments)});
  }
  return out;
}

Result<void> Executable::check_tensor(const Expected& expected, const Tensor& tensor) const {
  if (tensor.type != expected.type) {
    return fail(bad_tensor(expected.value,
                           fmt::format("the tensor for {} has type {}, planned was {}",
                                       expected.value, tensor.type, expected.type),
                           "pass a tensor of the planned type"));
  }
  if (tensor.sizes != expected.sizes) {
    return fail(bad_tensor(
        expected.value,
        fmt::format("the tensor for {} has sizes [{}], planned were [{}]", expected.value,
                    fmt::join(tensor.sizes, ", "), fmt::join(expected.sizes, ", ")),
        "plan again with these extents; the kernel comes from the cache if only rows differ"));
  }
  const Sizes& strides = tensor.strides.empty() ? expected.dense : tensor.strides;
  if (strides.size() != expected.strides.size()) {
    return fail(bad_tensor(expected.value,
                           fmt::format("the tensor for {} has {} strides for {} axes",
                                       expected.value, strides.size(), expected.strides.size()),
                           "give one stride per axis, or none for a dense tensor"));
  }
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    // The stride of an axis of at most one element is never walked.
    if (expected.sizes[axis] <= 1 || strides[axis] == expected.strides[axis]) continue;
    return fail(
        bad_tensor(expected.value,
                   fmt::format("the tensor for {} has stride {} along axis {}, planned was {}",
                               expected.value, strides[axis], axis, expected.strides[axis]),
                   "declare the strides on the fusion's input, or pass a contiguous tensor"));
  }
  if (expected.bytes == 0) return {};
  if (tensor.address == 0) {
    return fail(bad_tensor(expected.value,
                           fmt::format("the tensor for {} has a null address", expected.value),
                           "pass device memory"));
  }
  if (tensor.address % static_cast<uint64_t>(expected.alignment) != 0) {
    Error error = bad_tensor(
        expected.value,
        fmt::format(
            "the tensor for {} lies at {:#x}, which is not a multiple of the promised {} bytes",
            expected.value, tensor.address, expected.alignment),
        "declare a smaller alignment on the fusion's input");
    error.measured =
        static_cast<int64_t>(tensor.address % static_cast<uint64_t>(expected.alignment));
    error.limit = expected.alignment;
    return fail(std::move(error));
  }
  if (!options_.check_addresses) return {};
  int device = -1;
  const DriverStatus status =
      driver_->pointer_attribute(&device, PointerProperty::kDeviceOrdinal, tensor.address);
  if (status != DriverStatus::kSuccess || device != options_.device) {
    return fail(
        bad_tensor(expected.value,
                   status == DriverStatus::kSuccess
                       ? fmt::format("the tensor for {} lies on device {}, prepared was device {}",
                                     expected.value, device, options_.device)
                       : fmt::format("the address {:#x} for {} is not device memory",
                                     tensor.address, expected.value),
                   "pass memory of the device the plan was prepared for"));
  }
  return {};
}

Result<void> Executable::check_overlaps(std::span<const Tensor> inputs,
                                        std::span<const Tensor> outputs) const {
  const auto overlap = [](const Tensor& a, const Expected& ea, const Tensor& b,
                          const Expected& eb) {
    return ea.bytes > 0 && eb.bytes > 0 &&
           a.address < b.address + static_cast<uint64_t>(eb.bytes) &&
           b.address < a.address + static_cast<uint64_t>(ea.bytes);
  };
  const auto report = [&](const Expected& output, const Expected& other) {
    Error error = bad_tensor(
        output.value,
        fmt::format("the output {} overlaps the memory of {}", output.value, other.value),
        "pass outputs that share no byte with another tensor");
    error.values.push_back(other.value);
    return fail(std::move(error));
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (overlap(outputs[i], outputs_[i], inputs[j], inputs_[j]))
        return report(outputs_[i], inputs_[j]);
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlap(outputs[i], outputs_[i], outputs[j], outputs_[j]))
        return report(outputs_[i], outputs_[j]);
    }
  }
  return {};
}

Result<DevicePointer> Executable::counters_of(DevicePointer workspace, StreamHandle stream) const {
  if (const DevicePointer own = counters_->of(workspace); own != 0) return own;
  const size_t tensor = counter_argument_ - inputs_.size() - outputs_.size();
  const DevicePointer in_workspace =
      workspace + static_cast<DevicePointer>(workspace_offsets_[tensor]);
  return check(*driver_, DriverCall::kFillAsync,
               driver_->fill_async(in_workspace, 0, static_cast<size_t>(counter_bytes_), stream),
               "zeroing the counters of blocks")
      .map([&] { return in_workspace; });
}

Result<void> Executable::execute(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                 DevicePointer workspace, int64_t workspace_size,
                                 StreamHandle stream) const {
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size()) {
    return fail(
        {.kind = ErrorKind::kInvalidArgument,
         .message = fmt::format("{} inputs and {} outputs were passed, the fusion has {} and {}",
                                inputs.size(), outputs.size(), inputs_.size(), outputs_.size()),
         .remedy = "pass tensors in the order of the fusion's inputs and outputs"});
  }
  if (workspace_size < workspace_bytes()) {
    return fail({.kind = ErrorKind::kResourceExhausted,
                 .message = "the workspace is too small",
                 .remedy = "allocate workspace_bytes()",
                 .measured = workspace_size,
                 .limit = workspace_bytes()});
  }
  if (workspace_bytes() > 0 && (workspace == 0 || workspace % kWorkspaceUnit != 0)) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("the workspace at {:#x} is not aligned", workspace),
                 .remedy = "pass device memory whose address is a multiple of 256",
                 .measured = static_cast<int64_t>(workspace % kWorkspaceUnit),
                 .limit = kWorkspaceUnit});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (auto checked = check_tensor(inputs_[i], inputs[i]); !checked) return checked;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (auto checked = check_tensor(outputs_[i], outputs[i]); !checked) return checked;
  }
  if (auto checked = check_overlaps(inputs, outputs); !checked) return checked;

  DevicePointer counters = 0;
  if (counters_) {
    auto found = counters_of(workspace, stream);
    if (!found) return fail(found.error());
    counters = *found;
  }
  for (const Segment& segment : segments_) {
    std::array<DevicePointer, kMaxKernelArguments> addresses;
    for (size_t i = 0; i < segment.arguments.size(); ++i) {
      const uint32_t index = segment.arguments[i];
      const size_t tensors = inputs.size() + outputs.size();
      addresses[i] =
          index < inputs.size() ? inputs[index].address
          : index < tensors     ? outputs[index - inputs.size()].address
          : counters != 0 && index == counter_argument_
              ? counters
              : workspace + static_cast<DevicePointer>(workspace_offsets_[index - tensors]);
    }
    if (auto launched = segment.launch.launch(stream, {addresses.data(), segment.arguments.size()});
        !launched)
      return launched;
  }
  return {};
}

}  // namespace sinter
