#include "scheduler/cost/read_priority.h"

#include "scheduler/cost/cost_model.h"

namespace sinter {
namespace {

/// Share of memory time for which it is worth to leave lines behind that outlive the kernel: many
/// times L2's size of other kernels' writes do not push them out.
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
