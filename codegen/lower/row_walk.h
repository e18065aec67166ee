#pragma once

#include <functional>
#include <vector>

#include "codegen/kernel/kernel_builder.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// The part of a row that a thread loads before it uses the first element: batches with one
/// predication, the thread's peeled elements (edges), or both.
struct RowChunk {
  kir::ExprId first_batch;
  int64_t batches = 1;
  Predication predication = Predication::kNone;
  int64_t edges = 0;
  /// True if all its elements come after those of earlier chunks.
  bool is_in_order = true;

  /// Groups of the tiles that hold the chunk.
  [[nodiscard]] int64_t groups() const { return batches + edges; }
};

/// Distributes the columns of a row over its threads, and walks over a thread's columns by chunks,
/// the vectors of a chunk, and the lanes of a vector. It handles columns and predicates only. The
/// caller loads and evaluates the elements.
class RowWalk {
 public:
  RowWalk(const SegmentFacts& facts, const Schedule& schedule, kir::KernelBuilder& builder,
          TileLowering& tiles);

  /// Declares the calling thread's position, once in a kernel.
  void declare();
  /// Declares the thread's first column in the row that the tiles have entered, if it differs from
  /// row to row.
  void enter_row();

  [[nodiscard]] int64_t threads() const { return schedule_.threads_per_row; }
  /// The thread's number within its row.
  [[nodiscard]] kir::ExprId lane() const { return lane_; }
  /// True in the first thread of the row, of all blocks of a cluster.
  [[nodiscard]] kir::ExprId is_first_thread();
  /// The first column of the calling block, in the column index type; 0 if blocks share no rows.
  [[nodiscard]] kir::ExprId first_of_block() const { return first_of_block_; }
  /// The row slot of the thread within its block. Invalid: the block has one row at a time.
  [[nodiscard]] kir::ExprId slot() const { return slot_; }

  /// Runs `body` for every chunk of the row, of `unroll` batches at most. Rows held in registers
  /// are unrolled, because registers are indexed by batch; other rows are run-time loops. Runs for
  /// which `takes` returns false are skipped.
  void for_chunks(int64_t unroll, const std::function<void(const RowChunk&)>& body,
                  const std::function<bool(const ChunkRun&)>& takes = {});
  /// Runs `body` for every vector of a chunk, peeled elements last, whether inside the row or not.
  void for_vectors(const RowChunk& chunk, const std::function<void(const TilePosition&)>& body);
  /// Runs `body` for every vector of the row, batch by batch.
  void for_vectors(const std::function<void(const TilePosition&)>& body);
  /// Runs `body` for every lane of a vector, with that lane as the current element of the tiles.
  void for_lanes(const TilePosition& at, const std::function<void(kir::ExprId lane)>& body);
  /// Under a vector predication, only threads whose vector is inside the row run `body`.
  void when_inside(const TilePosition& at, const std::function<void()>& body);

 private:
  /// A peeled element: one outside of the whole vectors of an unaligned row.
  struct Edge {
    kir::ExprId column;
    kir::ExprId is_inside;  ///< The element is in the row, and belongs to this block.
  };

  void declare_part_of_block();
  void declare_first_column();
  void declare_guard_end(kir::ExprId head);
  void declare_peeled(kir::ExprId head);
  /// True if the blocks of a cluster share unaligned rows.
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
