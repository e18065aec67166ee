#pragma once

#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// 32-bit words of the accumulators of outer reductions in a thread that has `columns` columns: a
/// tuple for each column, and one for each total.
int64_t accumulator_words(const SegmentFacts& facts, int64_t columns);

/// True if some outer reduction accumulates per column, not a total alone.
bool accumulates_columns(const SegmentFacts& facts);

/// Bytes of the accumulators of one column.
int64_t accumulator_column_bytes(const SegmentFacts& facts);

/// Shared-memory traffic of the accumulators of a stage's outer reductions, per row.
struct AccumulatorTraffic {
  int64_t column_bytes = 0;     ///< Read and written, for each column.
  int64_t vector_accesses = 0;  ///< Loads and stores, for each of a thread's vectors.
};

/// No traffic if the accumulators are in registers.
AccumulatorTraffic accumulator_traffic(const SegmentFacts& facts, const Stage& stage,
                                       const Schedule& schedule);

/// Shared bytes of the accumulators that a schedule keeps there: a tuple for each column that the
/// vectors of a block's threads cover, in every row slot.
int64_t accumulator_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Elements of one row of partial results: a value for each column, one for each total.
int64_t partial_elements(const SegmentFacts& facts);

/// Rows of partial results that persistent blocks that walk over rows write: one for every block,
/// whose row slots combine theirs, or one for every cluster.
int64_t partial_rows(const Schedule& schedule);

/// Warps that share the rows of a contraction's tile where these are evaluated.
int64_t evaluating_warps(const MatmulParameters& own);

/// Rows of partial results that a schedule of a segment writes: those of its persistent blocks, or
/// of a contraction one for each warp that has rows of a tile.
int64_t partial_rows(const SegmentFacts& facts, const Schedule& schedule);

/// True if a schedule leaves partial results, which another kernel would have to finish. Persistent
/// blocks of a contraction leave none, unless they reduce over the rows.
bool leaves_partials(const SegmentFacts& facts, const Schedule& schedule);

/// Column strips of a column schedule. One or several blocks reduce a strip.
int64_t column_strips(const SegmentFacts& facts, const Schedule& schedule);

/// Shared bytes in which the row slots of a block combine their accumulators, batch by batch: a
/// tuple for each element of all slots but one. 0 for accumulators that are in shared memory
/// anyway.
int64_t slot_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Shared bytes in which the first block of a cluster receives the accumulators of the others: a
/// tuple for each element of their first row slots, and an mbarrier. 0 without clusters.
int64_t block_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Shared bytes in which the threads of each row combine their totals.
int64_t total_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
