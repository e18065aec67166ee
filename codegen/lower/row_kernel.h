#pragma once

#include <functional>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/row_body.h"
#include "codegen/lower/row_walk.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// A kernel that gives rows to groups of threads, up to where its drivers differ: its buffers, the
/// number of rows and the calling thread's place are declared. A driver adds the grid and the way
/// from rows to calls of `body`.
struct RowKernel {
  RowKernel(const SegmentFacts& facts, const Schedule& schedule);
  RowKernel(const RowKernel&) = delete;  // The parts refer to each other.
  RowKernel& operator=(const RowKernel&) = delete;

  /// Number of the calling block, i64; in a cluster, whose blocks share rows, that of the cluster.
  kir::ExprId block_number();
  /// First row of the calling block, in a grid that has a block for every rows_per_block rows.
  kir::ExprId first_row();
  /// How the blocks of a cluster exchange what they know of a row, as the `turn`-th of theirs
  /// (i32): in turns with two copies, so that each needs no barrier of the block. Invalid: the only
  /// one.
  RowExchange cluster_exchange(kir::ExprId turn);
  /// Leaves what the threads have accumulated over their rows, one row of partial results for every
  /// block or cluster; `barrier` emits what all threads with rows wait for each other at. The last
  /// block finishes them where the schedule has tickets.
  void store_partials(const RowExchange& exchange, const std::function<void()>& barrier);

  const SegmentFacts& facts;
  const Schedule& schedule;
  kir::Kernel kernel;
  kir::KernelBuilder builder;
  TileLowering tiles;
  RowWalk walk;
  OuterAccumulators outer;
  RowBody body;
  kir::ExprId rows;  ///< How many there are, i64.
  kir::ParamId rows_param;

 private:
  void finish_by_last_block(const std::function<void()>& barrier);
};

}  // namespace sinter
