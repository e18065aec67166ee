#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/cuda/kernel_source.h"
#include "runtime/driver/device_driver.h"
#include "runtime/driver/prepared_tensor_map.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// Tensors a launch can name: as arguments, and in a table that is one.
inline constexpr size_t kMostLaunchTensors = kMaxKernelArguments + kMostArgumentBytes / 8;

/// Blocks the kernel needs for its planned work: those of ceil(work / work_per_block) clusters.
int64_t blocks_of(const KernelSource& source);

/// A launch with everything decided but the addresses: configuration and scalar arguments are laid
/// out once, so that launch() only points at them. Refers to a function that a LoadedKernel owns
/// and that must outlive it. Copies freely.
class PreparedLaunch {
 public:
  /// Fails with kInvalidArgument when the grid, the block, a scalar, the number of arguments, their
  /// bytes or a tensor map exceed what a launch can carry, and with kUnsupported for a kernel with
  /// tensor maps on a driver older than CUDA 12.0. No work at all makes a launch that does nothing.
  static Result<PreparedLaunch> prepare(DeviceDriver& driver, FunctionHandle function,
                                        const KernelSource& source);

  /// Enqueues the kernel on a stream of the context the function was loaded in, which must be
  /// current on this thread. Takes one address per buffer of the kernel source, in its order, and
  /// then one per entry of its table. Encodes the tensor maps for these addresses.
  /// Allocates nothing, locks nothing and writes no member: any number of threads may launch at
  /// once, under stream capture too. Errors of the kernel itself appear when the stream is next
  /// synchronised, as always with CUDA.
  /// `may_start_early`: a kernel that waits for the one before it may be launched before the end of
  /// that; else it starts when all that is ahead of it on the stream has ended.
  [[nodiscard]] Result<void> launch(StreamHandle stream, std::span<const DevicePointer> buffers,
                                    bool may_start_early = true) const;

  [[nodiscard]] const LaunchConfig& config() const { return config_; }
  [[nodiscard]] size_t buffer_count() const { return buffer_count_ + table_offsets_.size(); }

 private:
  PreparedLaunch(DeviceDriver& driver, FunctionHandle function)
      : driver_(&driver), function_(function) {}

  DeviceDriver* driver_;
  FunctionHandle function_;
  LaunchConfig config_;
  bool starts_early_ = false;
  bool is_cooperative_ = false;
  size_t buffer_count_ = 0;
  size_t scalar_count_ = 0;
  // One slot of 8 bytes for each scalar: the driver reads as many as the parameter has, which on a
  // little-endian host are the low ones.
  std::array<int64_t, kMaxKernelArguments> scalars_{};
  std::vector<std::byte> table_;         ///< The argument behind them, without its addresses.
  std::vector<uint32_t> table_offsets_;  ///< Of those, in bytes.
  std::vector<PreparedTensorMap> maps_;  ///< None without work.
};

}  // namespace sinter
