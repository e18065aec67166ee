#pragma once

#include <memory>
#include <string>

#include "runtime/driver/device_driver.h"

namespace sinter {

/// Opens libcuda and initialises it. `library` is a path or name for the loader; empty means the
/// value of SINTER_LIBCUDA, or libcuda.so.1 if that is not set. Fails with kDeviceError when the
/// library is missing, lacks a call Sinter needs, or finds no device.
Result<std::unique_ptr<DeviceDriver>> open_driver(const std::string& library = {});

/// The driver of this process: open_driver() done once, by whichever thread asks first. Everybody
/// gets the same driver, or the same error. It lives as long as the process.
Result<DeviceDriver*> cuda_driver();

}  // namespace sinter
