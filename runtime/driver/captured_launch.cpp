#include "runtime/driver/captured_launch.h"

#include <utility>

namespace sinter {

Result<OwnStream> OwnStream::create(DeviceDriver& driver, std::string_view doing) {
  constexpr unsigned int kNonBlocking = 1;
  StreamHandle handle = nullptr;
  return check(driver, DriverCall::kStreamCreate, driver.stream_create(&handle, kNonBlocking),
               doing)
      .map([&] { return OwnStream(driver, handle); });
}

OwnStream::OwnStream(OwnStream&& other) noexcept
    : driver_(other.driver_), handle_(std::exchange(other.handle_, nullptr)) {}

OwnStream::~OwnStream() {
  if (handle_ != nullptr) (void)driver_->stream_destroy(handle_);
}

Result<CapturedLaunch> CapturedLaunch::capture(
    DeviceDriver& driver, StreamHandle stream,
    const std::function<Result<void>(StreamHandle)>& launch, std::string_view doing) {
  CapturedLaunch out(driver);
  auto begun = check(driver, DriverCall::kCaptureBegin,
                     driver.capture_begin(stream, CaptureMode::kThreadLocal), doing);
  if (!begun) return fail(std::move(begun.error()));
  auto launched = launch(stream);
  // The capture ends whether or not the launch could be made, or the stream would stay in it.
  auto ended =
      check(driver, DriverCall::kCaptureEnd, driver.capture_end(stream, &out.graph_), doing);
  if (!launched) return fail(std::move(launched.error()));
  if (!ended) return fail(std::move(ended.error()));
  auto made = check(driver, DriverCall::kGraphInstantiate,
                    driver.graph_instantiate(&out.executable_, out.graph_, 0), doing);
  if (!made) return fail(std::move(made.error()));
  return out;
}

CapturedLaunch::CapturedLaunch(CapturedLaunch&& other) noexcept
    : driver_(other.driver_),
      graph_(std::exchange(other.graph_, nullptr)),
      executable_(std::exchange(other.executable_, nullptr)) {}

CapturedLaunch::~CapturedLaunch() {
  if (executable_ != nullptr) (void)driver_->graph_exec_destroy(executable_);
  if (graph_ != nullptr) (void)driver_->graph_destroy(graph_);
}

Result<void> CapturedLaunch::replay(StreamHandle stream, std::string_view doing) const {
  return check(*driver_, DriverCall::kGraphLaunch, driver_->graph_launch(executable_, stream),
               doing);
}

}  // namespace sinter
