#pragma once

#include <string_view>

#include "scheduler/families/family.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Looped: the row is not resident. Every stage reads it in chunks. The statistics of a stage
/// (online forms included) take one pass; a stage after a row barrier reads the row again, from L2
/// if the rows in flight fit it.
///
/// Where columns are reduced too, the blocks of a persistent grid use a tiled two-pass schedule
/// with tiles of rows_per_tile rows. The first pass reduces the rows of a tile and keeps a few
/// numbers of each row. The second pass goes through all rows of the tile again, one chunk of
/// columns at a time, with the accumulators of that chunk in registers. Between tiles the
/// accumulators are stored in the block's partial results.
///
/// Use: no value is kept across a row barrier (sums, logsumexp, cross-entropy), so that one pass
/// suffices; or the row, or the accumulators of its columns, exceed every residency budget. It is
/// correct for any width. Rejects: no reduction; the reduced axis is not contiguous; outer
/// reductions that leave no partial results.
Proposal propose_looped(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_looped(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits);

Prediction predict_looped(const SegmentFacts& facts, const Schedule& schedule,
                          const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
