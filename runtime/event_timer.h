#pragma once

#include <functional>
#include <vector>

#include "runtime/device_driver.h"

namespace sinter {

struct TimingOptions {
  int warmups = 3;
  int samples = 15;  ///< At least 15: fewer make no honest median.
  bool cold_l2 =
      true;  ///< Writes scratch memory before every run, so that inputs come from memory.
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

/// Device time of `launch`, between two events around it on a stream of the current context. All
/// runs are enqueued before the first is waited for, and with a cold L2 each follows a long write,
/// so that the host's launch cost hides behind the device's work. `launch` enqueues on the stream
/// it is given; its error ends the measurement and is returned.
Result<Timing> time_launches(DeviceDriver& driver, DeviceOrdinal device, StreamHandle stream,
                             const std::function<Result<void>(StreamHandle)>& launch,
                             const TimingOptions& options = {});

}  // namespace sinter
