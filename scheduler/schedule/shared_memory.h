#pragma once

#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// Shared bytes of the exchange that the reductions of one row barrier need; 0 if a row fits a warp
/// or has no elements. `copies`: buffers side by side, each for `rows` rows of a group. In a
/// cluster the mbarriers are included.
int64_t exchange_bytes(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                       int64_t copies = 1, int64_t rows = 1);

/// Places for messages that a block needs for the tuples of a stage, where blocks exchange them
/// through global memory: as exchange_bytes().
int64_t message_places(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                       int64_t copies, int64_t rows);

/// Shared bytes of the row values that a two-pass schedule holds until the second pass: one for
/// each row of a tile.
int64_t tile_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                          const StageList& list);

/// Shared bytes of a block: kept values and one exchange for every stage that reduces, each aligned
/// to 16 bytes.
int64_t row_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// The same with the stage list already computed by stages_of().
int64_t row_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                         const StageList& list);

/// Shared bytes of the values that a block's threads keep there: room for each of their vectors.
int64_t kept_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
