#include "scheduler/cost/read_priority.h"

#include "scheduler/cost/cost_model.h"

namespace sinter {
namespace {

/// Smallest gain, as a share of memory time, for which reads may leave lines in L2 that outlive the
/// kernel: writes of other kernels of many times L2's size do not evict them.
constexpr double kLastingGain = 0.005;

}  // namespace

ReadPriority read_priority(const SegmentFacts& facts, const DeviceLimits& limits,
                           bool reads_again) {
  const auto time = [&](ReadPriority priority) {
    return memory_time(limits, static_cast<double>(facts.bytes_read),
                       static_cast<double>(facts.bytes_written), priority);
  };
  const bool last =
      time(ReadPriority::kEvictLast) <= (1.0 - kLastingGain) * time(ReadPriority::kNormal);
  const ReadPriority kept = reads_again ? ReadPriority::kLastUse : ReadPriority::kEvictLast;
  const ReadPriority else_asked = last ? kept : ReadPriority::kNormal;
  const bool first = !reads_again && time(ReadPriority::kEvictFirst) < time(else_asked);
  return first ? ReadPriority::kEvictFirst : else_asked;
}

}  // namespace sinter
