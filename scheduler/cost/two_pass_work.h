#pragma once

#include <vector>

#include "scheduler/analysis/stages.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/schedule/two_pass.h"

namespace sinter {

/// Candidate values of rows_per_tile for a schedule whose other fields are set. One candidate is
/// all rows of a block, as far as the shared memory of `blocks_per_sm` resident blocks has room for
/// their row values: accumulators then go to memory once. Another, if smaller, is the number of
/// rows for which the tiles of all blocks stay in L2 until the second pass.
std::vector<int64_t> tile_lengths(const SegmentFacts& facts, const Schedule& schedule,
                                  const StageList& list, const DeviceLimits& limits,
                                  int64_t blocks_per_sm);

/// Work of a two-pass schedule, for the cost model.
WorkEstimate estimate_two_pass_work(const SegmentFacts& facts, const Schedule& schedule,
                                    const StageList& list, const ResourceEstimate& estimate,
                                    const DeviceLimits& limits);

}  // namespace sinter
