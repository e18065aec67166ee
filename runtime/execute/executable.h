#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/compile/compile_plan.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/prepared_launch.h"
#include "runtime/execute/external_call.h"
#include "runtime/execute/loaded_kernel.h"
#include "runtime/execute/tensor.h"
#include "runtime/execute/workspace_allocator.h"
#include "runtime/execute/zeroed_memory.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {

struct PrepareOptions {
  DeviceOrdinal device = 0;
  /// Ask the driver at every execute whether each address belongs to the device. Costs a driver
  /// call per tensor.
  bool check_addresses = false;
  /// Runs the graph's external calls; needed if it has some.
  ExternalCallback external{};
  /// Shares what is loaded with other executables of the same device; null: with none.
  std::shared_ptr<LoadedKernels> loaded{};
};

/// Tensors that execute() compares on the stack; with more it allocates host memory.
inline constexpr size_t kTensorsOnStack = 1024;

/// A plan made ready on one device: modules loaded, launches laid out. execute() only launches: it
/// allocates nothing (but for kTensorsOnStack), synchronises nothing and takes no lock, so it may
/// run under stream capture and from any number of threads at once. Executions that may run at
/// once, or replay at once what was captured of them, have workspaces that share no byte.
class Executable {
 public:
  /// Loads the kernels, and asks libraries for theirs. Errors: DeviceError, ResourceExhausted,
  /// InvalidArgument (external calls and no callback, or one with more tensors than
  /// kMaxKernelArguments), Unsupported (a library has no kernel for its call).
  static Result<Executable> prepare(CompiledPlan compiled, DeviceDriver& driver,
                                    const PrepareOptions& options = {});

  /// Bytes of device memory execute() needs besides the tensors, aligned to 256. What they hold
  /// before an execution does not matter.
  [[nodiscard]] int64_t workspace_bytes() const { return compiled_->plan.workspace_bytes; }

  /// Enqueues the plan's kernels and external calls on `stream`, in their order. Tensors come in
  /// the order of the fusion's inputs and outputs, with the planned types, sizes and strides
  /// (outputs dense, but for those with a layout); an output that takes over the memory of an input
  /// has its address. Errors, found before anything is launched: InvalidArgument (count, type,
  /// size, stride, alignment, an output that overlaps another tensor or does not lie in its input,
  /// an address of another device), ResourceExhausted (workspace too small), DeviceError (launch).
  /// The error of an external call comes back as it is, with the op's id; nothing is enqueued
  /// behind the call, and the executable can be used again.
  [[nodiscard]] Result<void> execute(std::span<const Tensor> inputs,
                                     std::span<const Tensor> outputs, DevicePointer workspace,
                                     int64_t workspace_bytes, StreamHandle stream) const;

  /// The same in a workspace that it asks the allocator for, workspace_bytes() of it and never 0,
  /// once the tensors are found right, and releases when all is enqueued or something failed.
  /// Errors, beside those above: InvalidArgument (a function that is missing, an address that is
  /// null or no multiple of 256, a plan that checks indices, whose workspace is read afterwards);
  /// that of allocate() as it is, ResourceExhausted with `measured`,
  /// the bytes asked for, if it says nothing. Nothing is enqueued then, and the executable can be
  /// used again.
  [[nodiscard]] Result<void> execute(std::span<const Tensor> inputs,
                                     std::span<const Tensor> outputs,
                                     const WorkspaceAllocator& allocator,
                                     StreamHandle stream) const;

  /// Whether all indices were inside in the execution that used this workspace last, of a plan with
  /// PlanOptions::check_indices. The caller has waited for the execution, and has let nobody else
  /// write to the workspace since. Reads back the indices of all takes. Errors: InvalidArgument
  /// (an index outside, as outside_error(); a plan without the option; a workspace that does not
  /// fit), ResourceExhausted (workspace too small), DeviceError.
  [[nodiscard]] Result<void> check_indices(DevicePointer workspace, int64_t workspace_bytes) const;

  [[nodiscard]] const CompiledPlan& compiled() const { return *compiled_; }
  /// Of a kernel that no library runs.
  [[nodiscard]] const PreparedLaunch& launch(KernelId kernel) const {
    return *segments_[kernel].launch;
  }

 private:
  /// What execute() expects of one tensor.
  struct Expected {
    ValueId value;
    DType type = DType::kF32;
    Sizes sizes;
    Sizes strides;
    Sizes dense;
    int64_t alignment = 16;
    int64_t first_byte = 0;  ///< Extent of the tensor around its first element.
    int64_t bytes = 0;
    std::optional<size_t> alias{};  ///< Of an output: the input whose memory it takes over.
    bool is_overwritten = false;    ///< Of an input: an output takes over its memory.
  };
  /// Where a kernel argument lies.
  struct Argument {
    enum class Base : uint8_t { kInput, kOutput, kWorkspace, kCounters };
    Base base = Base::kInput;
    size_t index = 0;     ///< Which input or output.
    uint64_t offset = 0;  ///< Bytes into it, or into the workspace or counters.
  };
  /// An external call, with one entry for each operand and then each result.
  struct Call {
    const ExternalOp* op = nullptr;
    OpId id;
    size_t operands = 0;
    std::vector<Argument> arguments;
    std::vector<DType> types;
    std::vector<Sizes> sizes;
    std::vector<Sizes> strides;
  };
  struct Segment {
    LoadedKernelPtr kernel{};  ///< One for all segments that run it.
    std::optional<PreparedLaunch> launch{};
    bool loads_before_wait = false;                  ///< DependentLaunch::kPreload.
    std::unique_ptr<const PreparedMatmul> matmul{};  ///< In the place of both: a library call.
    std::vector<Argument> arguments{};
    int64_t counter_bytes = 0;  ///< Of counters, by which its blocks find the last of them.
    uint64_t counters_in_workspace = 0;  ///< Where they lie if not in memory of their own.
    uint64_t counters_at = 0;            ///< Where they lie there.
  };

  Executable(DeviceDriver& driver, DeviceContext context, const PrepareOptions& options)
      : driver_(&driver), context_(std::move(context)), options_(options) {}

  [[nodiscard]] Result<void> check_tensor(const Expected& expected, const Tensor& tensor) const;
  [[nodiscard]] Result<void> check_workspace(DevicePointer workspace, int64_t size) const;
  /// Refuses an output that does not lie in the input whose memory it takes over.
  [[nodiscard]] Result<void> check_alias(const Expected& expected, std::span<const Tensor> inputs,
                                         const Tensor& output) const;
  [[nodiscard]] Result<void> check_tensors(std::span<const Tensor> inputs,
                                           std::span<const Tensor> outputs) const;
  /// Launches and calls everything; nothing is checked.
  [[nodiscard]] Result<void> enqueue(std::span<const Tensor> inputs,
                                     std::span<const Tensor> outputs, DevicePointer workspace,
                                     StreamHandle stream) const;
  /// Loads what the segments run and lays out their arguments.
  Result<void> load_segments();
  /// Fails where blocks of a kernel wait for each other and the device does not hold all of them.
  /// Beside other kernels the launch waits until it does; in a part of a device, which has fewer
  /// SMs, the driver refuses it.
  [[nodiscard]] Result<void> check_residency(const LoadedKernel& kernel,
                                             const KernelSource& source) const;
  Result<void> prepare_calls();
  /// Where things lie in one execution.
  struct Addresses {
    std::span<const Tensor> inputs;
    std::span<const Tensor> outputs;
    DevicePointer workspace = 0;
    DevicePointer counters = 0;  ///< Of the segment at hand.
    [[nodiscard]] DevicePointer of(const Argument& argument) const;
  };
  [[nodiscard]] Argument argument_of(TensorSlot slot) const;
  [[nodiscard]] Result<void> launch_segment(const Segment& segment, Addresses addresses,
                                            DevicePointer own_counters, StreamHandle stream,
                                            bool may_start_early) const;
  [[nodiscard]] Result<void> run_call(const Call& call, const Addresses& addresses,
                                      StreamHandle stream) const;
  /// True if an output shares a byte with another tensor; takes n log n.
  [[nodiscard]] bool has_overlaps(std::span<const Tensor> inputs,
                                  std::span<const Tensor> outputs) const;
  [[nodiscard]] Result<void> check_overlaps(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const;

  DeviceDriver* driver_;
  DeviceContext context_;
  PrepareOptions options_;
  std::unique_ptr<const CompiledPlan> compiled_;
  std::vector<Expected> inputs_;
  std::vector<Expected> outputs_;
  IdVector<KernelId, Segment> segments_;
  IdVector<CallId, Call> calls_;
  IdVector<StepId, PlanStep> steps_;
  std::optional<ZeroedMemory> counters_;  ///< Of all segments whose blocks count or exchange.
};

}  // namespace sinter
