#include "runtime/driver/device_context.h"

#include <utility>

namespace sinter {

Result<DeviceContext> DeviceContext::retain(DeviceDriver& driver, DeviceOrdinal ordinal) {
  const std::string doing = fmt::format("opening device {}", ordinal);
  DeviceOrdinal device = 0;
  ContextHandle handle = nullptr;
  return check(driver, DriverCall::kDeviceGet, driver.device_get(&device, ordinal), doing)
      .and_then([&] {
        return check(driver, DriverCall::kContextRetain, driver.context_retain(&handle, device),
                     doing);
      })
      .map([&] { return DeviceContext(driver, device, handle); });
}

DeviceContext::DeviceContext(DeviceContext&& other) noexcept
    : driver_(other.driver_),
      device_(other.device_),
      handle_(std::exchange(other.handle_, nullptr)) {}

DeviceContext& DeviceContext::operator=(DeviceContext&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

DeviceContext::~DeviceContext() {
  // Nothing can be done about a failure here: the driver may be shutting down with the process.
  if (handle_ != nullptr) (void)driver_->context_release(device_);
}

Result<CurrentContext> CurrentContext::enter(DeviceDriver& driver, const DeviceContext& context) {
  constexpr std::string_view kDoing = "making the device's context current";
  ContextHandle previous = nullptr;
  return check(driver, DriverCall::kContextGetCurrent, driver.context_get_current(&previous),
               kDoing)
      .and_then([&] {
        return check(driver, DriverCall::kContextSetCurrent,
                     driver.context_set_current(context.handle()), kDoing);
      })
      .map([&] { return CurrentContext(driver, previous); });
}

CurrentContext::CurrentContext(CurrentContext&& other) noexcept
    : driver_(std::exchange(other.driver_, nullptr)), previous_(other.previous_) {}

CurrentContext::~CurrentContext() {
  if (driver_ != nullptr) (void)driver_->context_set_current(previous_);
}

}  // namespace sinter
