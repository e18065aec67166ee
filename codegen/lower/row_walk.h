#pragma once

#include <functional>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// What is loaded of a row before the first of it is used: batches, all under one predication, and
/// the thread's edges, or one of these.
struct RowChunk {
  kir::ExprId first_batch;
  int64_t batches = 1;
  Predication predication = Predication::kNone;
  int64_t edges = 0;
  /// Whether all its elements come behind those of the chunks before it.
  bool is_in_order = true;

  /// Of the tiles that hold it.
  [[nodiscard]] int64_t groups() const { return batches + edges; }
};

/// How the threads of a row share its columns and in which order each walks its own: by chunks, the
/// vectors of a chunk, the lanes of a vector. It knows columns and predicates only; what is done
/// with an element, and what is loaded for it, is the caller's matter.
class RowWalk {
 public:
  RowWalk(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
          TileLowering& tiles);

  /// Finds the calling thread's place, once in a kernel.
  void declare();
  /// Finds its first column in the row that the tiles have entered, where that differs from row to
  /// row.
  void enter_row();

  [[nodiscard]] int64_t threads() const { return schedule_.threads_per_row; }
  /// The thread's number within its row.
  [[nodiscard]] kir::ExprId lane() const { return lane_; }
  /// Whether it is the first of its row, in all blocks of a cluster.
  [[nodiscard]] kir::ExprId is_first_thread();
  /// The first column of the calling block, of the column index type; 0 where blocks share no rows.
  [[nodiscard]] kir::ExprId first_of_block() const { return first_of_block_; }
  /// The row's number within its block. Invalid: the block has one row at a time.
  [[nodiscard]] kir::ExprId slot() const { return slot_; }

  /// Runs `body` for every chunk of the row, of `unroll` batches at most. Rows that registers hold
  /// are unrolled, because those are indexed by batch; others are run-time loops. Runs that `takes`
  /// refuses are left out.
  void for_chunks(int64_t unroll, const std::function<void(const RowChunk&)>& body,
                  const std::function<bool(const ChunkRun&)>& takes = {});
  /// Runs `body` for every vector of a chunk, edges last, outside of the row or not.
  void for_vectors(const RowChunk& chunk, const std::function<void(const TilePosition&)>& body);
  /// Runs `body` for every vector of the row, batch by batch.
  void for_vectors(const std::function<void(const TilePosition&)>& body);
  /// Runs `body` for every lane of a vector, each the element at hand of the tiles.
  void for_lanes(const TilePosition& at, const std::function<void(kir::ExprId lane)>& body);
  /// Under a vector predication, lets only threads whose vector is inside the row run `body`.
  void when_inside(const TilePosition& at, const std::function<void()>& body);

 private:
  /// An element outside of the whole vectors of a shifted row.
  struct Edge {
    kir::ExprId column;
    kir::ExprId is_inside;  ///< The row has it, and this block is the one that takes it.
  };

  void declare_part_of_block();
  void declare_first_column();
  void declare_guard_end(kir::ExprId head);
  void declare_peeled(kir::ExprId head);
  /// Whether blocks of a cluster share rows whose vectors are shifted.
  [[nodiscard]] bool shares_unaligned_rows() const;
  kir::ExprId first_in_part();
  kir::ExprId first_whole_vector();
  kir::ExprId row_shift();

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  kir::ExprId lane_;
  kir::ExprId slot_;
  kir::ExprId first_of_block_;
  kir::ExprId first_;  ///< Column of the thread's first element in batch 0.
  std::vector<Edge> edges_;
};

}  // namespace sinter
