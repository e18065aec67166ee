#include "runtime/execute/executable.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <map>
#include <utility>

#include "fusion_ir/integers.h"
#include "runtime/execute/outside_indices.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/plan/workspace.h"

namespace sinter {
namespace {

Error bad_tensor(ValueId value, std::string message, std::string remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = std::move(remedy),
          .values = {value}};
}

Result<void> check_address(DevicePointer workspace) {
  if (workspace != 0 && workspace % kWorkspaceAlignment == 0) return {};
  return fail({.kind = ErrorKind::kInvalidArgument,
               .message = workspace == 0
                              ? "the workspace has a null address"
                              : fmt::format("the workspace at {:#x} is not aligned", workspace),
               .remedy = "pass device memory whose address is a multiple of 256",
               .measured = static_cast<int64_t>(workspace % kWorkspaceAlignment),
               .limit = kWorkspaceAlignment});
}

/// What an allocator gave for one execution; goes back to it also when a callback throws.
class ScopedWorkspace {
 public:
  static Result<ScopedWorkspace> allocate(const WorkspaceAllocator& allocator, int64_t bytes,
                                          StreamHandle stream) {
    auto address = allocator.allocate(bytes, stream);
    if (address) return ScopedWorkspace(allocator, *address, stream);
    Error error = std::move(address.error());
    if (error.kind == ErrorKind::kResourceExhausted && !error.measured) error.measured = bytes;
    return fail(std::move(error));
  }
  ScopedWorkspace(ScopedWorkspace&& other) noexcept
      : allocator_(other.allocator_),
        address_(std::exchange(other.address_, 0)),
        stream_(other.stream_) {}
  ScopedWorkspace& operator=(ScopedWorkspace&&) = delete;
  ~ScopedWorkspace() {
    if (address_ != 0) allocator_->release(address_, stream_);
  }

  [[nodiscard]] DevicePointer address() const { return address_; }

 private:
  ScopedWorkspace(const WorkspaceAllocator& allocator, DevicePointer address, StreamHandle stream)
      : allocator_(&allocator), address_(address), stream_(stream) {}

  const WorkspaceAllocator* allocator_;
  DevicePointer address_;  // 0 once moved from.
  StreamHandle stream_;
};

}  // namespace

Result<Executable> Executable::prepare(CompiledPlan compiled, DeviceDriver& driver,
                                       const PrepareOptions& options) {
  return as_result([&]() -> Result<Executable> {
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
      expected.bytes = reach_of(expected.sizes, expected.strides) * bytes_of(expected.type);
      return expected;
    };
    for (const ValueId input : fusion.inputs) {
      out.inputs_.push_back(expect(input, input_strides(fusion, binding, input),
                                   fusion.def_as<InputOp>(input)->alignment));
    }
    for (const ValueId output : out.compiled_->plan.caller_outputs()) {
      out.outputs_.push_back(expect(output, output_strides(fusion, binding, output),
                                    fusion.layout_of(output).alignment));
    }
    for (size_t i = 0; i < fusion.layouts.size(); ++i) {
      const auto input = std::ranges::find(fusion.inputs, fusion.layouts[i].alias);
      if (input == fusion.inputs.end()) continue;
      out.outputs_[i].alias = static_cast<size_t>(input - fusion.inputs.begin());
      out.inputs_[*out.outputs_[i].alias].is_overwritten = true;
    }
    if (auto loaded = out.load_segments(); !loaded) return fail(loaded.error());
    if (auto prepared = out.prepare_calls(); !prepared) return fail(prepared.error());
    out.steps_ = out.compiled_->plan.steps();
    return out;
  });
}

Result<void> Executable::load_segments() {
  const Plan& plan = compiled_->plan;
  const TensorSlots slots(plan);
  LoadedKernels own;
  LoadedKernels& kernels = options_.loaded ? *options_.loaded : own;
  int64_t counter_bytes = 0;
  for (const KernelId id : compiled_->kernels.ids()) {
    const KernelBuild& segment = compiled_->kernels[id];
    Segment prepared;
    if (segment.source.call) {
      SINTER_CHECK(segment.library != nullptr, "a library call without its library");
      auto matmul = segment.library->prepare(*segment.source.call);
      if (!matmul) return fail(matmul.error());
      prepared.matmul = std::move(*matmul);
    } else {
      const auto kernel = kernels.load(
          *driver_, segment.kernel, segment.source.dynamic_shared ? segment.source.shared_bytes : 0,
          segment.source.cluster_size);
      if (!kernel) return fail(kernel.error());
      if (auto fit = check_residency(**kernel, segment.source); !fit) return fit;
      auto launch = PreparedLaunch::prepare(*driver_, (*kernel)->function(), segment.source);
      if (!launch) return fail(launch.error());
      prepared.kernel = *kernel;
      prepared.launch = *launch;
      prepared.loads_before_wait =
          plan.kernels[id].chosen().schedule.dependent_launch == DependentLaunch::kPreload;
    }
    std::vector<BufferArgument> tensors = segment.source.buffers;
    for (const TableEntry& entry : segment.source.table_entries) tensors.push_back(entry.tensor);
    for (const BufferArgument& buffer : tensors) {
      const TensorSlot slot = slots.of(id, buffer.value, buffer.use);
      const bool counts = slot.kind == TensorSlot::Kind::kWorkspace &&
                          plan.workspace[slot.index].is_zero_between_launches();
      if (!counts) {
        prepared.arguments.push_back(argument_of(slot));
        continue;
      }
      prepared.counter_bytes = plan.workspace[slot.index].bytes;
      prepared.counters_in_workspace = static_cast<uint64_t>(plan.workspace[slot.index].offset);
      prepared.counters_at = static_cast<uint64_t>(counter_bytes);
      prepared.arguments.push_back({Argument::Base::kCounters, slot.index, 0});
      counter_bytes += rounded_up(prepared.counter_bytes, kWorkspaceAlignment);
    }
    segments_.push_back(std::move(prepared));
  }
  if (counter_bytes > 0) {
    auto counters = ZeroedMemory::create(*driver_, counter_bytes);
    if (!counters) return fail(counters.error());
    counters_.emplace(std::move(*counters));
  }
  return {};
}

Result<void> Executable::check_residency(const LoadedKernel& kernel,
                                         const KernelSource& source) const {
  if (source.team_size == 1) return {};
  const auto of_sm =
      kernel.blocks_per_sm(source.threads, source.dynamic_shared ? source.shared_bytes : 0);
  if (!of_sm) return fail(of_sm.error());
  int sms = 0;
  auto asked = check(*driver_, DriverCall::kDeviceAttribute,
                     driver_->device_attribute(&sms, DeviceProperty::kSmCount, options_.device),
                     "asking for the number of SMs");
  if (!asked) return asked;
  const int64_t most = *of_sm * sms;
  const int64_t blocks = blocks_of(source);
  if (blocks <= most) return {};
  return fail({.kind = ErrorKind::kResourceExhausted,
               .message = fmt::format("kernel {}: its blocks wait for each other, and not all of "
                                      "them run at the same time on this device",
                                      source.entry),
               .remedy = "plan with PlanOptions::teams = false (--no-teams), or for this device",
               .measured = blocks,
               .limit = most});
}

Executable::Argument Executable::argument_of(TensorSlot slot) const {
  switch (slot.kind) {
    case TensorSlot::Kind::kInput:
      return {Argument::Base::kInput, slot.index, static_cast<uint64_t>(slot.offset)};
    case TensorSlot::Kind::kOutput:
      return {Argument::Base::kOutput, slot.index, static_cast<uint64_t>(slot.offset)};
    case TensorSlot::Kind::kWorkspace: {
      const int64_t start = compiled_->plan.workspace[slot.index].offset;
      return {Argument::Base::kWorkspace, slot.index, static_cast<uint64_t>(start + slot.offset)};
    }
  }
  unreachable();
}

Result<void> Executable::prepare_calls() {
  const Plan& plan = compiled_->plan;
  const TensorSlots slots(plan);
  for (const ExternalCall& external : plan.externals) {
    const Op& op = plan.fusion.ops[external.op];
    Call call{.op = &std::get<ExternalOp>(op.kind),
              .id = external.op,
              .operands = op.operands.size(),
              .arguments = {},
              .types = {},
              .sizes = {},
              .strides = {}};
    const size_t tensors = op.operands.size() + op.results.size();
    if (!options_.external || tensors > kMaxKernelArguments) {
      Error error{.kind = ErrorKind::kInvalidArgument,
                  .message = !options_.external
                                 ? fmt::format("nothing runs the external call '{}'", call.op->name)
                                 : fmt::format("the external call '{}' has too many tensors",
                                               call.op->name),
                  .remedy = !options_.external ? "pass PrepareOptions::external"
                                               : "pass them in several calls",
                  .ops = {call.id}};
      if (options_.external) {
        error.measured = static_cast<int64_t>(tensors);
        error.limit = static_cast<int64_t>(kMaxKernelArguments);
      }
      return fail(std::move(error));
    }
    const auto add = [&](ValueId value) {
      const Value& info = plan.fusion.values[value];
      call.arguments.push_back(argument_of(slots.of(value)));
      call.types.push_back(info.type);
      call.sizes.push_back(Binding{}.sizes_of(info.shape));
      call.strides.push_back(slots.strides_of(value));
    };
    for (const ValueId operand : op.operands) add(operand);
    for (const ValueId result : op.results) add(result);
    calls_.push_back(std::move(call));
  }
  return {};
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

bool Executable::has_overlaps(std::span<const Tensor> inputs,
                              std::span<const Tensor> outputs) const {
  struct Occupied {
    DevicePointer begin = 0;
    DevicePointer end = 0;
    bool is_output = false;
  };
  boost::container::small_vector<Occupied, kTensorsOnStack> occupied;
  const auto add = [&](const Tensor& tensor, const Expected& expected, bool is_output) {
    if (expected.bytes == 0) return;
    occupied.push_back(
        {tensor.address, tensor.address + static_cast<uint64_t>(expected.bytes), is_output});
  };
  // An output in an input's memory is that tensor, which then is written like an output.
  for (size_t i = 0; i < inputs.size(); ++i) add(inputs[i], inputs_[i], inputs_[i].is_overwritten);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs_[i].alias) add(outputs[i], outputs_[i], true);
  }
  std::ranges::sort(occupied, {}, &Occupied::begin);
  DevicePointer end_of_outputs = 0;
  DevicePointer end_of_all = 0;
  for (const Occupied& tensor : occupied) {
    if (tensor.begin < (tensor.is_output ? end_of_all : end_of_outputs)) return true;
    end_of_all = std::max(end_of_all, tensor.end);
    if (tensor.is_output) end_of_outputs = std::max(end_of_outputs, tensor.end);
  }
  return false;
}

Result<void> Executable::check_overlaps(std::span<const Tensor> inputs,
                                        std::span<const Tensor> outputs) const {
  if (!has_overlaps(inputs, outputs)) return {};
  // Which they are is asked of all pairs, as long as that takes.
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
  const auto is_alias = [&](size_t output, size_t input) {
    return outputs_[output].alias == input;
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (!is_alias(i, j) && overlap(outputs[i], outputs_[i], inputs[j], inputs_[j]))
        return report(outputs_[i], inputs_[j]);
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlap(outputs[i], outputs_[i], outputs[j], outputs_[j]))
        return report(outputs_[i], outputs_[j]);
    }
  }
  return {};
}

Result<void> Executable::check_tensors(std::span<const Tensor> inputs,
                                       std::span<const Tensor> outputs) const {
  if (inputs.size() != inputs_.size() || outputs.size() != outputs_.size()) {
    return fail(
        {.kind = ErrorKind::kInvalidArgument,
         .message = fmt::format("{} inputs and {} outputs were passed, the fusion has {} and {}",
                                inputs.size(), outputs.size(), inputs_.size(), outputs_.size()),
         .remedy = "pass tensors in the order of the fusion's inputs and outputs"});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (auto checked = check_tensor(inputs_[i], inputs[i]); !checked) return checked;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (auto checked = check_tensor(outputs_[i], outputs[i]); !checked) return checked;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (auto checked = check_alias(outputs_[i], inputs, outputs[i]); !checked) return checked;
  }
  return check_overlaps(inputs, outputs);
}

Result<void> Executable::check_alias(const Expected& expected, std::span<const Tensor> inputs,
                                     const Tensor& output) const {
  if (!expected.alias || expected.bytes == 0) return {};
  const DevicePointer address = inputs[*expected.alias].address;
  if (output.address == address) return {};
  const ValueId input = inputs_[*expected.alias].value;
  Error error = bad_tensor(
      expected.value,
      fmt::format("the output {} takes over the memory of the input {} at {:#x}, and lies at {:#x}",
                  expected.value, input, address, output.address),
      "pass one tensor as both");
  error.values.push_back(input);
  return fail(std::move(error));
}

Result<void> Executable::check_workspace(DevicePointer workspace, int64_t size) const {
  if (size < workspace_bytes()) {
    return fail({.kind = ErrorKind::kResourceExhausted,
                 .message = "the workspace is too small",
                 .remedy = "allocate workspace_bytes()",
                 .measured = size,
                 .limit = workspace_bytes()});
  }
  return workspace_bytes() > 0 ? check_address(workspace) : Result<void>{};
}

Result<void> Executable::execute(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                 DevicePointer workspace, int64_t workspace_size,
                                 StreamHandle stream) const {
  return as_result([&]() -> Result<void> {
    if (auto checked = check_workspace(workspace, workspace_size); !checked) return checked;
    if (auto checked = check_tensors(inputs, outputs); !checked) return checked;
    return enqueue(inputs, outputs, workspace, stream);
  });
}

Result<void> Executable::execute(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                 const WorkspaceAllocator& allocator, StreamHandle stream) const {
  return as_result([&]() -> Result<void> {
    if (!allocator.allocate || !allocator.release) {
      return fail({.kind = ErrorKind::kInvalidArgument,
                   .message = "the workspace allocator lacks a function",
                   .remedy = "set both WorkspaceAllocator::allocate and release"});
    }
    if (compiled_->plan.checks_indices) {
      return fail(
          {.kind = ErrorKind::kInvalidArgument,
           .message = "the plan checks indices, which are read from the workspace afterwards",
           .remedy = "pass a workspace instead of an allocator"});
    }
    if (auto checked = check_tensors(inputs, outputs); !checked) return checked;
    if (workspace_bytes() == 0) return enqueue(inputs, outputs, 0, stream);
    auto workspace = ScopedWorkspace::allocate(allocator, workspace_bytes(), stream);
    if (!workspace) return fail(std::move(workspace.error()));
    if (auto checked = check_address(workspace->address()); !checked) return checked;
    return enqueue(inputs, outputs, workspace->address(), stream);
  });
}

Result<void> Executable::check_indices(DevicePointer workspace, int64_t workspace_size) const {
  return as_result([&]() -> Result<void> {
    const Plan& plan = compiled_->plan;
    if (!plan.checks_indices) {
      return fail({.kind = ErrorKind::kInvalidArgument,
                   .message = "the plan does not check indices",
                   .remedy = "plan with PlanOptions::check_indices"});
    }
    if (auto checked = check_workspace(workspace, workspace_size); !checked) return checked;
    auto current = CurrentContext::enter(*driver_, context_);
    if (!current) return fail(current.error());
    std::vector<std::vector<std::byte>> copies;
    const TensorSlots slots(plan);
    for (const ValueId kept : plan.kept_indices()) {
      const WorkspaceTensor& tensor = plan.workspace[slots.of(kept).index];
      std::vector<std::byte>& copy = copies.emplace_back(static_cast<size_t>(tensor.bytes));
      if (copy.empty()) continue;
      const DriverStatus status = driver_->copy_to_host(
          copy.data(), workspace + static_cast<uint64_t>(tensor.offset), copy.size());
      auto copied =
          check(*driver_, DriverCall::kCopyToHost, status, "reading the indices of takes");
      if (!copied) return copied;
    }
    const std::vector<std::span<const std::byte>> bytes(copies.begin(), copies.end());
    const std::vector<OutsideIndices> found = find_outside_indices(plan, bytes);
    if (found.empty()) return {};
    return fail(outside_error(found));
  });
}

Result<void> Executable::enqueue(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                 DevicePointer workspace, StreamHandle stream) const {
  const Addresses addresses{inputs, outputs, workspace, 0};
  // None where more workspaces are in use than there are counters.
  const DevicePointer own_counters = counters_ ? counters_->of(workspace) : 0;
  // What the caller has left on the stream may start the next kernel early, and still write what a
  // kernel of this plan reads before it waits. A kernel of this plan writes none of that.
  bool is_behind_kernel = false;
  for (const PlanStep& step : steps_) {
    if (const auto* call = std::get_if<CallId>(&step)) {
      is_behind_kernel = false;
      if (auto done = run_call(calls_[*call], addresses, stream); !done) return done;
      continue;
    }
    const Segment& segment = segments_[std::get<KernelId>(step)];
    const bool may_start_early = is_behind_kernel || !segment.loads_before_wait;
    if (auto done = launch_segment(segment, addresses, own_counters, stream, may_start_early);
        !done)
      return done;
    // Kernels without blocks are not launched.
    if (!segment.launch) {
      is_behind_kernel = false;
    } else if (segment.launch->config().grid_x > 0) {
      is_behind_kernel = true;
    }
  }
  return {};
}

DevicePointer Executable::Addresses::of(const Argument& argument) const {
  switch (argument.base) {
    case Argument::Base::kInput:
      return inputs[argument.index].address + argument.offset;
    case Argument::Base::kOutput:
      return outputs[argument.index].address + argument.offset;
    case Argument::Base::kWorkspace:
      return workspace + argument.offset;
    case Argument::Base::kCounters:
      return counters;
  }
  unreachable();
}

Result<void> Executable::launch_segment(const Segment& segment, Addresses addresses,
                                        DevicePointer own_counters, StreamHandle stream,
                                        bool may_start_early) const {
  addresses.counters = own_counters + segment.counters_at;
  if (segment.counter_bytes > 0 && own_counters == 0) {
    addresses.counters = addresses.workspace + segment.counters_in_workspace;
    const DriverStatus status = driver_->fill_async(
        addresses.counters, 0, static_cast<size_t>(segment.counter_bytes), stream);
    auto zeroed =
        check(*driver_, DriverCall::kFillAsync, status, "zeroing what blocks count and exchange");
    if (!zeroed) return zeroed;
  }
  std::array<DevicePointer, kMostLaunchTensors> arguments;
  for (size_t i = 0; i < segment.arguments.size(); ++i)
    arguments[i] = addresses.of(segment.arguments[i]);
  const std::span<const DevicePointer> all(arguments.data(), segment.arguments.size());
  return segment.matmul ? segment.matmul->launch(stream, all)
                        : segment.launch->launch(stream, all, may_start_early);
}

Result<void> Executable::run_call(const Call& call, const Addresses& addresses,
                                  StreamHandle stream) const {
  std::array<ExternalTensor, kMaxKernelArguments> tensors;
  for (size_t i = 0; i < call.arguments.size(); ++i)
    tensors[i] = {addresses.of(call.arguments[i]), call.types[i], call.sizes[i], call.strides[i]};
  const std::span<const ExternalTensor> all(tensors.data(), call.arguments.size());
  auto ran = options_.external({.op = call.op,
                                .id = call.id,
                                .inputs = all.first(call.operands),
                                .outputs = all.subspan(call.operands),
                                .stream = stream});
  if (ran) return {};
  Error error = ran.error();
  error.ops.push_back(call.id);
  return fail(std::move(error));
}

}  // namespace sinter
