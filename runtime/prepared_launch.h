#pragma once

#include <array>
#include <span>

#include "codegen/kernel_source.h"
#include "runtime/device_driver.h"

namespace sinter {

/// Arguments a launch can carry, pointers and scalars together. Bounds the array on the stack of
/// launch(); the driver's own limit is 4,096 bytes of arguments before CUDA 12.1, or 512 pointers.
inline constexpr size_t kMaxKernelArguments = 128;

/// Blocks the kernel needs for its planned work: those of ceil(work / work_per_block) clusters.
int64_t blocks_of(const KernelSource& source);

/// A launch with everything decided but the addresses: configuration and scalar arguments are laid
/// out once, so that launch() only points at them. Refers to a function that a LoadedKernel owns
/// and that must outlive it. Copies freely.
class PreparedLaunch {
 public:
  /// Fails with kInvalidArgument when the grid, the block, a scalar or the number of arguments
  /// exceeds what a launch can carry. No work at all makes a launch that does nothing.
  static Result<PreparedLaunch> prepare(DeviceDriver& driver, FunctionHandle function,
                                        const KernelSource& source);

  /// Enqueues the kernel on a stream of the context the function was loaded in, which must be
  /// current on this thread. Takes one address per buffer of the kernel source, in its order.
  /// Allocates nothing, locks nothing and writes no member: any number of threads may launch at
  /// once, under stream capture too. Errors of the kernel itself appear when the stream is next
  /// synchronised, as always with CUDA.
  [[nodiscard]] Result<void> launch(StreamHandle stream,
                                    std::span<const DevicePointer> buffers) const;

  [[nodiscard]] const LaunchConfig& config() const { return config_; }
  [[nodiscard]] size_t buffer_count() const { return buffer_count_; }

 private:
  PreparedLaunch(DeviceDriver& driver, FunctionHandle function)
      : driver_(&driver), function_(function) {}

  DeviceDriver* driver_;
  FunctionHandle function_;
  LaunchConfig config_;
  bool overlaps_previous_ = false;
  size_t buffer_count_ = 0;
  size_t scalar_count_ = 0;
  // One slot of 8 bytes for each scalar: the driver reads as many as the parameter has, which on a
  // little-endian host are the low ones.
  std::array<int64_t, kMaxKernelArguments> scalars_{};
};

}  // namespace sinter
