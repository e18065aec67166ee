// A libcuda of CUDA 11.8: it has all calls but those of SINTER_OPTIONAL_DRIVER_CALL. They succeed
// and do nothing.

#include "runtime/driver/device_driver.h"

namespace sinter {
extern "C" {

#define SINTER_DRIVER_CALL(camel, snake, symbol, parameters, arguments) \
  DriverStatus old_##snake parameters asm(symbol);                      \
  DriverStatus old_##snake parameters { return DriverStatus::kSuccess; }
#define SINTER_OPTIONAL_DRIVER_CALL(camel, snake, symbol, parameters, arguments)
#include "runtime/driver_calls.def"
#undef SINTER_DRIVER_CALL

DriverStatus cuInit(unsigned int) { return DriverStatus::kSuccess; }
DriverStatus cuGetErrorName(DriverStatus, const char**) { return DriverStatus::kInvalidValue; }
DriverStatus cuGetErrorString(DriverStatus, const char**) { return DriverStatus::kInvalidValue; }

}  // extern "C"
}  // namespace sinter
