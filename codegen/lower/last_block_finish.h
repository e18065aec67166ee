#pragma once

#include <functional>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/schedule/last_block.h"

namespace sinter {

/// The end of a kernel with a last-block reduction (`finish last_block`). Blocks write partial
/// results; each then increments an atomic arrival counter. The block that increments it last
/// combines all partial results and stores the outputs that depend on them.
///
///     barrier                          the stores of the block's threads are visible to the leader
///     leader: fence, increment, fence  these are released to the device, and the stores of blocks
///                                      that have incremented before are acquired
///     barrier                          the latter are visible to all threads of the last block
///
/// The counter is 0 again after the last block's increment, so the next launch finds it as this one
/// did. The order in which partial results are combined depends on the schedule alone, not on which
/// block is last: the result has the same bits in every run.
class LastBlockFinish {
 public:
  /// `partials` has stored its tuples to readable buffers, and the outputs are declared in `tiles`.
  LastBlockFinish(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
                  const TileLowering& tiles, const OuterAccumulators& partials);

  struct Place {
    kir::ExprId thread;             ///< i32: number of the calling thread, below threads_per_block.
    kir::ExprId strip;              ///< i32: number of the block's strip (run of columns).
    kir::ExprId first_column;       ///< First column of the strip, in the column index type.
    kir::ExprId blocks;             ///< i32: blocks that increment the strip's counter.
    kir::ExprId rows;               ///< i64: rows of partial results.
    std::function<void()> barrier;  ///< Emits a barrier of all these threads.
  };
  void run(const Place& place);

 private:
  /// True in the block that incremented the counter last; the same for all its threads.
  kir::ExprId is_last(const Place& place);
  void combine(const Place& place);
  /// Combines the columns of one round.
  void combine_columns(const Place& place, kir::ExprId round);
  /// One past the last column of the strip.
  kir::ExprId end_of(const Place& place);
  /// Stores the finished outputs at the calling thread's columns, if they are before `end`.
  void store_finished(kir::ExprId first_column, kir::ExprId end);

  const SegmentFacts& facts_;
  kir::KernelBuilder& builder_;
  const OuterAccumulators& partials_;
  const int64_t threads_;  ///< Threads of the block that call this code.
  const LastBlockGeometry geometry_;
  const Schedule columns_;  ///< How a thread's columns are stored.
  TileLowering tiles_;
  OuterAccumulators sums_;
};

}  // namespace sinter
