#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_driver.h"

namespace sinter {

struct TimingOptions {
  int warmups = 3;
  int samples = 15;     ///< At least 15: fewer make no honest median.
  bool cold_l2 = true;  ///< Waits, gives up what reads of the context asked L2 to keep, and writes
                        ///< scratch memory before every run, so that inputs come from memory.
  /// Capture the launch once and replay the graph, as frameworks are timed: the host's part of a
  /// launch is then not between the events.
  bool graph = false;
  /// Bytes of scratch memory; 0: four times the L2, and 256 MiB at least.
  int64_t scratch_bytes = 0;
};

struct Timing {
  double median_us = 0.0;
  std::vector<double> samples_us;  ///< In the order they were measured.
};

/// Middle of the values, or mean of the two middle ones. At least one value.
double median(std::vector<double> values);

/// Bytes to write before each run so that nothing is left in L2; 0 if the options want it warm.
Result<int64_t> scratch_bytes_for(DeviceDriver& driver, DeviceOrdinal device,
                                  const TimingOptions& options);

/// Enqueues what leaves nothing in L2 of what the device did before: a write of scratch memory,
/// none if there is none of that. All earlier work must have ended. Lines that reads asked L2 to
/// keep longest (evict_last) outlive such a write, and more: that is given up first, which takes
/// effect at once and not in the order of the stream. After 16 MiB read so the next run of the same
/// kernel takes 8.1 us with the write alone and 9.3 with both; an `applypriority` to each line
/// gives 9.3 too (H200).
Result<void> empty_l2(DeviceDriver& driver, const DeviceBuffer& scratch, unsigned char byte,
                      StreamHandle stream, std::string_view doing);

/// Device time of `launch`, between two events around it on a stream of the current context. With a
/// cold L2 each run follows the end of the one before it and a long write, so that the host's
/// launch cost hides behind the device's work; else all are enqueued before the first is waited
/// for. `launch` enqueues on the stream it is given; its error ends the measurement and is
/// returned.
Result<Timing> time_launches(DeviceDriver& driver, DeviceOrdinal device, StreamHandle stream,
                             const std::function<Result<void>(StreamHandle)>& launch,
                             const TimingOptions& options = {});

}  // namespace sinter
