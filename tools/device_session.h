#pragma once

#include "runtime/check/device_run.h"
#include "tools/problem.h"

namespace sinter::tool {

/// A problem compiled and made ready on the machine's first device.
struct DeviceSession {
  DeviceDriver* driver;
  Executable executable;
};

/// Whether there is a driver with a device and a compiler; the error says what is missing.
Result<void> find_device_tools();

/// The kernel cache that the environment names. What goes wrong with it is told on standard error.
KernelCacheOptions cache_options();

/// Compiles the plan through the kernel cache and prepares it on device 0. Errors: DeviceError
/// where driver or NVRTC are missing, and those of compiling and loading.
Result<DeviceSession> open_session(Plan plan, const FamilySet& families);

}  // namespace sinter::tool
