#include "runtime/driver/event_timer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/driver/captured_launch.h"
#include "runtime/driver/device_event.h"

namespace sinter {
namespace {

constexpr int kMinSamples = 15;
constexpr int64_t kMinScratchBytes = int64_t{256} << 20;
constexpr std::string_view kDoing = "timing launches";

}  // namespace

Result<int64_t> scratch_bytes_for(DeviceDriver& driver, DeviceOrdinal device,
                                  const TimingOptions& options) {
  if (!options.cold_l2) return 0;
  if (options.scratch_bytes > 0) return options.scratch_bytes;
  int l2_bytes = 0;
  return check(driver, DriverCall::kDeviceAttribute,
               driver.device_attribute(&l2_bytes, DeviceProperty::kL2Bytes, device), kDoing)
      .map([&] { return std::max(kMinScratchBytes, int64_t{4} * l2_bytes); });
}

double median(std::vector<double> values) {
  SINTER_CHECK(!values.empty(), "median of nothing");
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<void> empty_l2(DeviceDriver& driver, const DeviceBuffer& scratch, unsigned char byte,
                      StreamHandle stream, std::string_view doing) {
  if (scratch.bytes() == 0) return {};
  const DriverStatus status = driver.context_reset_persisting_l2();
  // Where no lines can be kept, none are.
  if (status != DriverStatus::kNotSupported) {
    auto reset = check(driver, DriverCall::kContextResetPersistingL2, status, doing);
    if (!reset) return reset;
  }
  return check(driver, DriverCall::kFillAsync,
               driver.fill_async(scratch.pointer(), byte, scratch.bytes(), stream), doing);
}

Result<Timing> time_launches(DeviceDriver& driver, DeviceOrdinal device, StreamHandle stream,
                             const std::function<Result<void>(StreamHandle)>& launch,
                             const TimingOptions& options) {
  if (options.samples < kMinSamples) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = "too few timing samples for a median",
                 .remedy = "take at least 15",
                 .measured = options.samples,
                 .limit = kMinSamples});
  }
  const auto scratch_bytes = scratch_bytes_for(driver, device, options);
  if (!scratch_bytes) return fail(scratch_bytes.error());
  auto scratch = DeviceBuffer::allocate(driver, static_cast<size_t>(*scratch_bytes));
  if (!scratch) return fail(std::move(scratch.error()));

  std::vector<std::pair<DeviceEvent, DeviceEvent>> runs;
  for (int i = 0; i < options.samples; ++i) {
    auto start = DeviceEvent::create(driver, kDoing);
    if (!start) return fail(std::move(start.error()));
    auto end = DeviceEvent::create(driver, kDoing);
    if (!end) return fail(std::move(end.error()));
    runs.emplace_back(std::move(*start), std::move(*end));
  }

  const auto wait = [&] {
    return check(driver, DriverCall::kStreamSynchronize, driver.stream_synchronize(stream),
                 "waiting for the launches being timed");
  };
  const auto chill = [&](unsigned char byte) -> Result<void> {
    if (scratch->bytes() == 0) return {};
    return wait().and_then([&] { return empty_l2(driver, *scratch, byte, stream, kDoing); });
  };
  for (int i = 0; i < options.warmups; ++i) {
    if (auto done = launch(stream); !done) return fail(std::move(done.error()));
  }
  std::optional<OwnStream> own;
  if (options.graph && stream == nullptr) {
    auto finished =
        check(driver, DriverCall::kStreamSynchronize, driver.stream_synchronize(stream), kDoing);
    if (!finished) return fail(std::move(finished.error()));
    auto made = OwnStream::create(driver, kDoing);
    if (!made) return fail(std::move(made.error()));
    own.emplace(std::move(*made));
    stream = own->handle();
  }
  std::optional<CapturedLaunch> captured;
  if (options.graph) {
    auto made = CapturedLaunch::capture(driver, stream, launch, kDoing);
    if (!made) return fail(std::move(made.error()));
    captured.emplace(std::move(*made));
  }
  unsigned char byte = 0;
  for (const auto& [start, end] : runs) {
    auto done =
        chill(byte++)
            .and_then([&] { return start.record(stream, kDoing); })
            .and_then([&] { return captured ? captured->replay(stream, kDoing) : launch(stream); })
            .and_then([&] { return end.record(stream, kDoing); });
    if (!done) return fail(std::move(done.error()));
  }
  if (auto finished = wait(); !finished) return fail(std::move(finished.error()));

  Timing out;
  for (const auto& [start, end] : runs) {
    auto read = end.us_since(start, kDoing);
    if (!read) return fail(std::move(read.error()));
    out.samples_us.push_back(*read);
  }
  out.median_us = median(out.samples_us);
  return out;
}

}  // namespace sinter
