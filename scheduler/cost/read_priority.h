#pragma once

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// The priority under which the segment's bytes move fastest (memory_time):
/// - kEvictLast, where L2 has no room for what moves and much of it is written, makes L2 write its
///   dirty lines back steadily instead of in turns with reads: on an H200 an RMS norm of 8192 x
///   8192 in bf16 takes 68 us instead of 71, one of 2048 x 4096 13.6 instead of 14.1. Up to 24 MB
///   that the next kernels write and read again stay in L2 either way; of 40 MB a part does not,
///   which costs less than was won (docs/experiments/l2_read_priority.md);
/// - kEvictFirst, where hardly anything is written, leaves what other kernels wrote in L2, instead
///   of waiting for it to be written back. Not for `reads_again`, which hopes to find its rows;
/// - kLastUse keeps those until their last read, and nothing else: loops of gated RMS norms of 2048
///   x 16384 in bf16 take 56.3 us instead of 59.3 with kEvictLast.
ReadPriority read_priority(const SegmentFacts& facts, const DeviceLimits& limits,
                           bool reads_again = false);

}  // namespace sinter
