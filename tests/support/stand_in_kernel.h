#pragma once

#include <string>

#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/execute/external_call.h"
#include "runtime/execute/loaded_kernel.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// What stand_in_calls.h puts in the place of external calls, on a device.
class StandInKernel {
 public:
  /// Compiles and loads it in the current context. Errors: those of NVRTC and the driver.
  static Result<StandInKernel> make(DeviceDriver& driver, const NvrtcCompiler& compiler,
                                    const DeviceLimits& limits, const std::string& entry);

  /// Enqueues all results of a call; may be captured. Unsupported for a type or a number of
  /// operands that stand-ins do not have.
  [[nodiscard]] Result<void> run(const ExternalRequest& request) const;
  /// Enqueues result `r`.
  [[nodiscard]] Result<void> launch(const ExternalRequest& request, size_t r) const;

 private:
  explicit StandInKernel(LoadedKernel kernel) : kernel_(std::move(kernel)) {}
  LoadedKernel kernel_;
};

}  // namespace sinter
