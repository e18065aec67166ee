#include "runtime/driver/device_driver.h"

#include <array>
#include <cstddef>

namespace sinter {
namespace {

// cuLaunchKernelEx reads the structure directly; offsets as in cuda.h on 64-bit hosts.
static_assert(sizeof(LaunchConfig) == 56);
static_assert(offsetof(LaunchConfig, dynamic_shared_bytes) == 24);
static_assert(offsetof(LaunchConfig, stream) == 32);
static_assert(offsetof(LaunchConfig, attributes) == 40);
static_assert(offsetof(LaunchConfig, attribute_count) == 48);
static_assert(sizeof(LaunchAttribute) == 72);
static_assert(offsetof(LaunchAttribute, value) == 8);
// cuTensorMapEncodeTiled writes it, and kernels take it by value.
static_assert(sizeof(EncodedTensorMap) == 128 && alignof(EncodedTensorMap) == 64);

std::string remedy_for(DriverStatus status) {
  switch (status) {
    case DriverStatus::kOutOfMemory:
      return "free device memory, or use smaller extents";
    case DriverStatus::kNoDevice:
    case DriverStatus::kInvalidDevice:
      return "check the ordinal against `sinter devices`, and CUDA_VISIBLE_DEVICES";
    case DriverStatus::kInvalidContext:
    case DriverStatus::kInvalidHandle:
      return "make the context current in which the kernel was prepared, and use a stream of it";
    case DriverStatus::kNoBinaryForGpu:
      return "plan and compile for the architecture of this device";
    case DriverStatus::kIllegalAddress:
      return "check buffer sizes and strides; the context is unusable until the process restarts";
    case DriverStatus::kStreamCaptureUnsupported:
    case DriverStatus::kStreamCaptureInvalidated:
      return "prepare before the capture begins; only execute may run during one";
    case DriverStatus::kLaunchOutOfResources:
      return "use a schedule with fewer threads or registers";
    case DriverStatus::kCooperativeLaunchTooLarge:
      return "plan with PlanOptions::teams = false (--no-teams), or for this device";
    case DriverStatus::kSuccess:
    case DriverStatus::kInvalidValue:
    case DriverStatus::kNotFound:
    case DriverStatus::kNotReady:
    case DriverStatus::kNotSupported:
      break;
  }
  // Also every code that has no name here.
  return "look the driver's code up in cuda.h; after a fault of a kernel only a new process helps";
}

}  // namespace

std::string_view name_of(DriverCall call) {
  static constexpr std::array<std::string_view, kDriverCallCount> kNames = {
#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) symbol,
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL
  };
  return kNames.at(static_cast<size_t>(call));
}

Error driver_error(const DeviceDriver& driver, DriverCall call, DriverStatus status,
                   std::string_view doing) {
  const bool is_exhausted =
      status == DriverStatus::kOutOfMemory || status == DriverStatus::kCooperativeLaunchTooLarge;
  return {.kind = is_exhausted ? ErrorKind::kResourceExhausted : ErrorKind::kDeviceError,
          .message =
              fmt::format("{} failed while {}: {}", name_of(call), doing, driver.describe(status)),
          .remedy = remedy_for(status)};
}

}  // namespace sinter
