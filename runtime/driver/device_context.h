#pragma once

#include "runtime/driver/device_driver.h"

namespace sinter {

/// A share in the primary context of a device, the one that the CUDA runtime and the frameworks on
/// it use too. Holds the context alive; does not make it current.
class DeviceContext {
 public:
  static Result<DeviceContext> retain(DeviceDriver& driver, DeviceOrdinal ordinal);

  DeviceContext(DeviceContext&& other) noexcept;
  DeviceContext& operator=(DeviceContext&& other) noexcept;
  ~DeviceContext();

  [[nodiscard]] ContextHandle handle() const { return handle_; }
  [[nodiscard]] DeviceOrdinal device() const { return device_; }

 private:
  DeviceContext(DeviceDriver& driver, DeviceOrdinal device, ContextHandle handle)
      : driver_(&driver), device_(device), handle_(handle) {}

  DeviceDriver* driver_;
  DeviceOrdinal device_;
  ContextHandle handle_;  // Null once moved from.
};

/// Makes a context current on this thread for a scope, and then the one that was before.
class CurrentContext {
 public:
  static Result<CurrentContext> enter(DeviceDriver& driver, const DeviceContext& context);

  CurrentContext(CurrentContext&& other) noexcept;
  CurrentContext& operator=(CurrentContext&&) = delete;
  ~CurrentContext();

 private:
  CurrentContext(DeviceDriver& driver, ContextHandle previous)
      : driver_(&driver), previous_(previous) {}

  DeviceDriver* driver_;  // Null once moved from.
  ContextHandle previous_;
};

}  // namespace sinter
