#pragma once

#include "scheduler/family.h"

namespace sinter {

/// Looped: the row is not resident. Every stage reads it in chunks; the statistics of a stage
/// (online forms included) take one pass, and what follows a barrier reads the row again, from L2
/// where the rows in flight fit it.
///
/// When it is the answer: nothing crosses a row barrier (sums, logsumexp, cross-entropy), so one
/// pass is all there is; or the row exceeds every residency budget. It is correct for any width.
/// Rejects: no reduction; the reduced axis is not contiguous.
Proposal propose_looped(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_looped(const SegmentFacts& facts,
                                                          const Schedule& schedule,
                                                          const DeviceLimits& limits);

}  // namespace sinter
