#pragma once

#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

// Schedules that take rows in turns (Schedule::rows_per_tile): what they may be, and what they
// cost. Stage lists are those of distribute_two_pass().

/// Rows that a block, or the blocks of a cluster together, take at most.
int64_t rows_of_block(const SegmentFacts& facts, const Schedule& schedule);

/// Turns that it takes for them, at least one: that leaves partial results of no rows too.
int64_t row_tile_count(const SegmentFacts& facts, const Schedule& schedule);

/// True where every block, or cluster, has its rows and is gone, and others take its place until
/// all are done: one row, where it leaves totals and nothing that it would walk columns for.
bool is_non_persistent(const SegmentFacts& facts, const Schedule& schedule);

/// True where turns have no second part: statistics and totals are all that there is to do with a
/// row, so that one follows the other.
bool goes_through_once(const SegmentFacts& facts, const StageList& list);

/// What keeps a schedule of outer reductions from taking rows in turns; nothing: it may.
std::optional<Rejection> check_two_pass(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list);

}  // namespace sinter
