#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/cache/compiled_kernel.h"
#include "runtime/driver/device_driver.h"

namespace sinter {

/// A compiled kernel in the current context of a device, ready to launch. Owns the module; unload
/// only when no launch of it is pending.
class LoadedKernel {
 public:
  /// Loads the image, finds the kernel and, where the kernel wants more than the 48 KiB a launch
  /// may take unasked, raises its limit; where its clusters are larger than every device runs,
  /// allows them. All that the driver does lazily happens here, so that launches allocate and load
  /// nothing.
  static Result<LoadedKernel> load(DeviceDriver& driver, const CompiledKernel& kernel,
                                   int64_t dynamic_shared_bytes, int64_t cluster_size = 1);

  LoadedKernel(LoadedKernel&& other) noexcept;
  LoadedKernel& operator=(LoadedKernel&& other) noexcept;
  ~LoadedKernel();

  [[nodiscard]] FunctionHandle function() const { return function_; }
  [[nodiscard]] DeviceDriver& driver() const { return *driver_; }

  /// Blocks of this many threads that one SM holds at once, as the driver computes it.
  [[nodiscard]] Result<int64_t> blocks_per_sm(int64_t threads, int64_t dynamic_shared_bytes) const;

 private:
  LoadedKernel(DeviceDriver& driver, ModuleHandle module) : driver_(&driver), module_(module) {}

  DeviceDriver* driver_;
  ModuleHandle module_;  // Null once moved from.
  FunctionHandle function_ = nullptr;
};

using LoadedKernelPtr = std::shared_ptr<const LoadedKernel>;

/// Kernels loaded in one context that executables share: what one of them has loaded is not loaded
/// again as long as any of them lives. Any thread may call.
class LoadedKernels {
 public:
  /// As LoadedKernel::load(), in the current context, which is the same for all.
  Result<LoadedKernelPtr> load(DeviceDriver& driver, const CompiledKernelPtr& kernel,
                               int64_t dynamic_shared_bytes, int64_t cluster_size = 1);

 private:
  /// A kernel's text settles its shared memory and clusters, so the kernel tells them apart.
  struct Entry {
    std::weak_ptr<const CompiledKernel> kernel;  ///< Another may come to lie at its address.
    std::weak_ptr<const LoadedKernel> loaded;
  };
  std::mutex mutex_;
  std::map<const CompiledKernel*, Entry> entries_;
};

}  // namespace sinter
