#pragma once

#include <functional>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/schedule/last_block.h"

namespace sinter {

/// The end of a kernel whose blocks have left partial results (`finish last_block`): each draws a
/// number, and the one that draws the last combines what all of them left and stores what follows.
///
///     barrier                        what the block's threads stored is known to all of them,
///     one thread: fence, draw, fence to the device, and what others stored before they drew to it,
///     barrier                        and to all threads of the last block
///
/// The counter is 0 again when the last block has drawn, so that the next launch finds it as this
/// one did. Rows of partial results are combined in an order that depends on the schedule alone,
/// not on which block is the last: the result has the same bits in every run.
class LastBlockFinish {
 public:
  /// `partials` has stored its tuples, to buffers that may be read, and `tiles` knows the outputs.
  LastBlockFinish(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
                  const TileLowering& tiles, const OuterAccumulators& partials);

  struct Place {
    kir::ExprId thread;             ///< i32: one of threads_per_block that come here.
    kir::ExprId strip;              ///< i32: number of the block's run of columns.
    kir::ExprId first_column;       ///< Of that, in the column index type.
    kir::ExprId blocks;             ///< i32: blocks that draw the strip's tickets.
    kir::ExprId rows;               ///< i64: of partial results.
    std::function<void()> barrier;  ///< Emits what all these threads wait for each other at.
  };
  void run(const Place& place);

 private:
  /// Whether the block has drawn the last number, the same for all threads.
  kir::ExprId draw(const Place& place);
  void combine(const Place& place);
  /// Takes one round of the columns.
  void combine_columns(const Place& place, kir::ExprId round);
  /// The column behind the last of the strip's.
  kir::ExprId end_of(const Place& place);
  /// Stores what follows at the calling thread's columns, if they are before `end`.
  void store_finished(kir::ExprId first_column, kir::ExprId end);

  const SegmentFacts& facts_;
  kir::KernelBuilder& builder_;
  const OuterAccumulators& partials_;
  const int64_t threads_;  ///< Of the block, those that come here.
  const LastBlockGeometry geometry_;
  const Schedule columns_;  ///< How a thread's columns are stored.
  TileLowering tiles_;
  OuterAccumulators sums_;
};

}  // namespace sinter
