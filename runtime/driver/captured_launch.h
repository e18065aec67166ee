#pragma once

#include <functional>
#include <string_view>

#include "runtime/driver/device_driver.h"

namespace sinter {

// `doing` says in errors what the call was for.

/// A stream with an owner; the legacy default stream cannot be captured. It does not wait for that
/// one.
class OwnStream {
 public:
  static Result<OwnStream> create(DeviceDriver& driver, std::string_view doing);
  OwnStream(OwnStream&& other) noexcept;
  OwnStream& operator=(OwnStream&&) = delete;
  ~OwnStream();

  [[nodiscard]] StreamHandle handle() const { return handle_; }

 private:
  OwnStream(DeviceDriver& driver, StreamHandle handle) : driver_(&driver), handle_(handle) {}

  DeviceDriver* driver_;
  StreamHandle handle_;  // Null once moved from.
};

/// What `launch` enqueues, captured into a graph that can be replayed.
class CapturedLaunch {
 public:
  /// `stream` is not the legacy default one. Fails with what `launch` or the driver fails with.
  static Result<CapturedLaunch> capture(DeviceDriver& driver, StreamHandle stream,
                                        const std::function<Result<void>(StreamHandle)>& launch,
                                        std::string_view doing);
  CapturedLaunch(CapturedLaunch&& other) noexcept;
  CapturedLaunch& operator=(CapturedLaunch&&) = delete;
  ~CapturedLaunch();

  [[nodiscard]] Result<void> replay(StreamHandle stream, std::string_view doing) const;

 private:
  explicit CapturedLaunch(DeviceDriver& driver) : driver_(&driver) {}

  DeviceDriver* driver_;
  GraphHandle graph_ = nullptr;
  GraphExecHandle executable_ = nullptr;
};

}  // namespace sinter
