#pragma once

#include <vector>

#include "runtime/driver/device_driver.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// Describes a live device. Budgets (SMs, registers, threads, shared memory, L2) are what the
/// driver reports. Rates come from the preset of the same product where there is one; otherwise
/// bandwidth and clock come from the driver and the rest from the nearest generation's preset.
Result<DeviceLimits> query_device(DeviceDriver& driver, DeviceOrdinal ordinal);

/// Every device the driver shows, in its order.
Result<std::vector<DeviceLimits>> query_devices(DeviceDriver& driver);

/// The device an address belongs to. kInvalidArgument, naming the argument `what`, for memory of
/// the host or of nobody.
Result<DeviceOrdinal> device_of(DeviceDriver& driver, DevicePointer pointer, std::string_view what);

}  // namespace sinter
