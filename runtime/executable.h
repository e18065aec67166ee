#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/compile_plan.h"
#include "runtime/device_context.h"
#include "runtime/loaded_kernel.h"
#include "runtime/prepared_launch.h"
#include "runtime/tensor.h"
#include "runtime/ticket_counters.h"

namespace sinter {

struct PrepareOptions {
  DeviceOrdinal device = 0;
  /// Ask the driver at every execute whether each address belongs to the device. Costs a driver
  /// call per tensor.
  bool check_addresses = false;
};

/// A plan made ready on one device: modules loaded, launches laid out. execute() only launches: it
/// allocates nothing, synchronises nothing and takes no lock, so it may run under stream capture
/// and from any number of threads at once. Executions that may run at once, or replay at once what
/// was captured of them, have workspaces that share no byte.
class Executable {
 public:
  /// Loads the kernels. Errors: DeviceError, ResourceExhausted.
  static Result<Executable> prepare(CompiledPlan compiled, DeviceDriver& driver,
                                    const PrepareOptions& options = {});

  /// Bytes of device memory execute() needs besides the tensors, aligned to 256. What they hold
  /// before an execution does not matter.
  [[nodiscard]] int64_t workspace_bytes() const { return workspace_bytes_; }

  /// Enqueues the plan's kernels on `stream`. Tensors come in the order of the fusion's inputs and
  /// outputs, with the planned types, sizes and strides (outputs dense). Errors, found before
  /// anything is launched: InvalidArgument (count, type, size, stride, alignment, an output that
  /// overlaps another tensor, an address of another device), ResourceExhausted (workspace too
  /// small), DeviceError (launch).
  [[nodiscard]] Result<void> execute(std::span<const Tensor> inputs,
                                     std::span<const Tensor> outputs, DevicePointer workspace,
                                     int64_t workspace_bytes, StreamHandle stream) const;

  [[nodiscard]] const CompiledPlan& compiled() const { return *compiled_; }
  [[nodiscard]] const PreparedLaunch& launch(size_t segment) const {
    return segments_[segment].launch;
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
  };
  /// Which tensor each kernel argument is: inputs first, then outputs, then those of the workspace.
  struct Segment {
    LoadedKernel kernel;
    PreparedLaunch launch;
    std::vector<uint32_t> arguments;
  };

  Executable(DeviceDriver& driver, DeviceContext context, const PrepareOptions& options)
      : driver_(&driver), context_(std::move(context)), options_(options) {}

  [[nodiscard]] Result<void> check_tensor(const Expected& expected, const Tensor& tensor) const;
  /// The counters of an execution in this workspace, which are 0 when its kernel starts.
  [[nodiscard]] Result<DevicePointer> counters_of(DevicePointer workspace,
                                                  StreamHandle stream) const;
  [[nodiscard]] Result<void> check_overlaps(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const;

  DeviceDriver* driver_;
  DeviceContext context_;
  PrepareOptions options_;
  std::unique_ptr<const CompiledPlan> compiled_;
  std::vector<Expected> inputs_;
  std::vector<Expected> outputs_;
  std::vector<Segment> segments_;
  std::vector<int64_t> workspace_offsets_;  ///< Bytes, by workspace tensor.
  /// Of blocks that count themselves; where a kernel has them, also their bytes and which argument
  /// they are, counted as in `arguments`.
  std::optional<TicketCounters> counters_;
  int64_t counter_bytes_ = 0;
  uint32_t counter_argument_ = 0;
  int64_t workspace_bytes_ = 0;
};

}  // namespace sinter
