#pragma once

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// L2 eviction priority of reads with the shortest memory time (memory_time):
/// - kEvictLast, if L2 has no room for the traffic and much of it is written. L2 then writes dirty
///   lines back steadily instead of alternating write-backs and reads. Up to 24 MB that later
///   kernels write and read again stay in L2 either way; of 40 MB a part does not, which costs less
///   than the gain (docs/experiments/l2_read_priority.md);
/// - kEvictFirst, if hardly anything is written. It leaves dirty lines of other kernels in L2, so
///   that reads do not wait for their write-back. Not for `reads_again`, whose second reads should
///   hit;
/// - kLastUse, which keeps only lines that are read again, and those until their last read.
///
/// Measurements: docs/experiments/constants_cost.md.
ReadPriority read_priority(const SegmentFacts& facts, const DeviceLimits& limits,
                           bool reads_again = false);

}  // namespace sinter
