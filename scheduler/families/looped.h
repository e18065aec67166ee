#pragma once

#include <string_view>

#include "scheduler/families/family.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Looped: the row is not resident. Every stage reads it in chunks; the statistics of a stage
/// (online forms included) take one pass, and what follows a barrier reads the row again, from L2
/// where the rows in flight fit it.
///
/// Where columns are reduced too, blocks of a persistent grid take rows in turns (rows_per_tile):
/// they reduce the rows of a turn, keep a few numbers of each, and then go through all of them
/// again, one chunk of columns at a time, with the accumulators of that chunk in registers. Between
/// turns these wait in the block's partial results.
///
/// When it is the answer: nothing crosses a row barrier (sums, logsumexp, cross-entropy), so one
/// pass is all there is; or the row, or the accumulators of its columns, exceed every residency
/// budget. It is correct for any width.
/// Rejects: no reduction; the reduced axis is not contiguous; outer reductions that leave no
/// partial results.
Proposal propose_looped(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_looped(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits);

Prediction predict_looped(const SegmentFacts& facts, const Schedule& schedule,
                          const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
