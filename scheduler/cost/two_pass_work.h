#pragma once

#include <vector>

#include "scheduler/analysis/stages.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/schedule/two_pass.h"

namespace sinter {

/// Numbers of rows a turn that are worth trying, for a schedule whose other fields are there. All
/// of a block's rows, as far as shared memory has room for their row values beside `blocks_per_sm`
/// blocks: then what they accumulate goes to memory once. And as many as L2 holds of all blocks
/// until they are read again, if those are fewer.
std::vector<int64_t> turn_lengths(const SegmentFacts& facts, const Schedule& schedule,
                                  const StageList& list, const DeviceLimits& limits,
                                  int64_t blocks_per_sm);

/// Work of a schedule that takes rows in turns, for the cost model.
WorkEstimate estimate_two_pass_work(const SegmentFacts& facts, const Schedule& schedule,
                                    const StageList& list, const ResourceEstimate& estimate,
                                    const DeviceLimits& limits,
                                    const CostConstants& constants = {});

}  // namespace sinter
