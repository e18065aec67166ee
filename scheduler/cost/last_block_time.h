#pragma once

#include "scheduler/budgets/device_limits.h"
#include "scheduler/cost/cost_model.h"

namespace sinter {

/// Microseconds from the last block's partial results to the combined results.
double last_block_time(const SegmentFacts& facts, const Schedule& schedule,
                       const DeviceLimits& limits);

/// Adds the cost of combining partial results, by the last block or a second kernel, to the work of
/// a schedule that writes them.
void add_finish(const SegmentFacts& facts, const Schedule& schedule, const DeviceLimits& limits,
                WorkEstimate& work);

}  // namespace sinter
