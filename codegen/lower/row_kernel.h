#pragma once

#include <functional>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/row_body.h"
#include "codegen/lower/row_walk.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// The common part of kernels that assign rows to groups of threads: the buffers, the number of
/// rows and the calling thread's position are declared. A driver adds the grid and the loop over
/// rows that calls `body`.
struct RowKernel {
  RowKernel(const SegmentFacts& facts, const Schedule& schedule);
  RowKernel(const RowKernel&) = delete;  // The parts refer to each other.
  RowKernel& operator=(const RowKernel&) = delete;

  /// Number of the calling block, i64; if the blocks of a cluster share rows, the number of the
  /// cluster.
  kir::ExprId block_number();
  /// First row of the calling block, in a grid that has a block for every rows_per_block rows.
  kir::ExprId first_row();
  /// How the blocks of a cluster exchange the statistics of a row, in their exchange number
  /// `iteration` (i32). Consecutive exchanges alternate between two copies of the scratch memory,
  /// so they need no barrier of the block. Invalid: there is only one exchange.
  RowExchange cluster_exchange(kir::ExprId iteration);
  /// Stores the threads' accumulators, as one row of partial results for every block or cluster.
  /// `barrier` emits a barrier of all threads with rows. With a last-block reduction in the
  /// schedule, the last block finishes them.
  void store_partials(const RowExchange& exchange, const std::function<void()>& barrier);

  const SegmentFacts& facts;
  const Schedule& schedule;
  kir::Kernel kernel;
  kir::KernelBuilder builder;
  TileLowering tiles;
  RowWalk walk;
  OuterAccumulators outer;
  RowBody body;
  kir::ExprId rows;  ///< Number of rows, i64.
  kir::ParamId rows_param;

 private:
  void finish_by_last_block(const std::function<void()>& barrier);
};

}  // namespace sinter
