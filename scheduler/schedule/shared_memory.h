#pragma once

#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// Bytes of the exchange that one barrier's reductions need in shared memory; zero if a row fits a
/// warp, or has no elements. `copies` of it lie side by side, each for `rows` rows of a group. In a
/// cluster with its mbarriers.
int64_t exchange_bytes(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                       int64_t copies = 1, int64_t rows = 1);

/// Shared bytes of the row values that wait for the end of a turn: a place for each of its rows.
int64_t tile_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                          const StageList& list);

/// Shared bytes of a block: resident values and one exchange for every reducing stage, each aligned
/// to 16 bytes.
int64_t row_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// The same with the stages at hand, as stages_of() gives them.
int64_t row_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                         const StageList& list);

/// Shared bytes of what the threads of a block keep there, a place for each of their vectors.
int64_t kept_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
