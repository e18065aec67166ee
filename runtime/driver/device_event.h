#pragma once

#include <string_view>
#include <utility>

#include "runtime/driver/device_driver.h"

namespace sinter {

/// An event with an owner, that keeps the time of what it was recorded behind. `doing` says in
/// errors what it was for.
class DeviceEvent {
 public:
  static Result<DeviceEvent> create(DeviceDriver& driver, std::string_view doing) {
    constexpr unsigned int kDefaultFlags = 0;  // With timing.
    EventHandle handle = nullptr;
    return check(driver, DriverCall::kEventCreate, driver.event_create(&handle, kDefaultFlags),
                 doing)
        .map([&] { return DeviceEvent(driver, handle); });
  }
  DeviceEvent(DeviceEvent&& other) noexcept
      : driver_(other.driver_), handle_(std::exchange(other.handle_, nullptr)) {}
  DeviceEvent& operator=(DeviceEvent&&) = delete;
  ~DeviceEvent() {
    if (handle_ != nullptr) (void)driver_->event_destroy(handle_);
  }
  [[nodiscard]] EventHandle handle() const { return handle_; }

  [[nodiscard]] Result<void> record(StreamHandle stream, std::string_view doing) const {
    return check(*driver_, DriverCall::kEventRecord, driver_->event_record(handle_, stream), doing);
  }
  /// Microseconds from an earlier event to this one, both of which the device has passed.
  [[nodiscard]] Result<double> us_since(const DeviceEvent& start, std::string_view doing) const {
    float milliseconds = 0;
    return check(*driver_, DriverCall::kEventElapsed,
                 driver_->event_elapsed(&milliseconds, start.handle_, handle_), doing)
        .map([&] { return double{milliseconds} * 1000.0; });
  }

 private:
  DeviceEvent(DeviceDriver& driver, EventHandle handle) : driver_(&driver), handle_(handle) {}

  DeviceDriver* driver_;
  EventHandle handle_;  // Null once moved from.
};

}  // namespace sinter
