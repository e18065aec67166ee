#pragma once

#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

// Two-pass schedules, which process tiles of rows (Schedule::rows_per_tile): their legality and
// geometry. Stage lists are those of distribute_two_pass().

/// Rows of a block, or of a cluster, at most.
int64_t rows_of_block(const SegmentFacts& facts, const Schedule& schedule);

/// Tiles of a block or cluster; at least one, so that a segment of no rows writes partial results
/// too.
int64_t row_tile_count(const SegmentFacts& facts, const Schedule& schedule);

/// True for a non-persistent grid: each block or cluster ends after its rows, and others take its
/// place. Either persistent_blocks is 0, or a two-pass schedule gives each block or cluster at most
/// one row and accumulates totals but no columns.
bool is_non_persistent(const SegmentFacts& facts, const Schedule& schedule);

/// True if tiles need no second pass, because statistics and totals are all that is computed from a
/// row. The rows of a block then follow each other directly.
bool goes_through_once(const SegmentFacts& facts, const StageList& list);

/// Why a schedule of outer reductions cannot be two-pass. Empty: it can.
std::optional<Rejection> check_two_pass(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list);

}  // namespace sinter
