#pragma once

#include "scheduler/budgets/device_limits.h"
#include "scheduler/cost/cost_model.h"

namespace sinter {

/// Microseconds from the last block's partial results to the finished ones.
double last_block_time(const SegmentFacts& facts, const Schedule& schedule,
                       const DeviceLimits& limits, const CostConstants& constants = {});

/// Adds to the work of a schedule that leaves partial results what finishes them.
void add_finish(const SegmentFacts& facts, const Schedule& schedule, const DeviceLimits& limits,
                const CostConstants& constants, WorkEstimate& work);

}  // namespace sinter
