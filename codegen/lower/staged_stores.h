#pragma once

#include <map>

#include "codegen/lower/program_scope.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Collects rows of outputs of a warp, eight or sixteen, in shared memory, where the lanes put the
/// pairs of columns that they hold, and stores them from there in wide accesses along the rows. A
/// warp store of pairs would touch eight lines of memory for a quarter of a line.
class StagedStores {
 public:
  /// The arguments must outlive the object.
  StagedStores(const ProgramScope& scope, const TileLowering& tiles, const program::Region& region);

  [[nodiscard]] bool empty() const { return region_.staged.empty(); }
  /// Columns that are collected at once.
  [[nodiscard]] int64_t row_columns() const {
    return scope_.tile(region_.staged.front().tile).columns.extent;
  }
  [[nodiscard]] bool takes(size_t output) const { return lowerings_.contains(output); }
  /// Puts the lane's vector of an output at a row and column (i32) of those that are collected.
  void put(size_t output, kir::VarId vector, kir::ExprId row, kir::ExprId column);

  /// What has been collected.
  struct Collected {
    kir::ExprId first_row;  ///< In the block's tile, i32.
    int64_t first_column;   ///< In the fragment.
    int64_t columns;
    Predication predication;
  };
  /// Stores all of it that is inside of the outputs. All lanes of the warp execute it.
  void store(const Collected& collected);

 private:
  [[nodiscard]] kir::ExprId index(const program::Tile& tile, kir::ExprId row, kir::ExprId column);
  void store(const program::Staging& staging, const Collected& collected);

  /// Lowers accesses of a staging's width.
  struct Wide {
    Schedule schedule;
    TileLowering tiles;
    Wide(const SegmentFacts& facts, kir::KernelBuilder& builder, const TileLowering& buffers,
         int64_t width);
  };

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const program::Region& region_;
  std::map<size_t, std::unique_ptr<Wide>> lowerings_;  ///< By output.
};

}  // namespace sinter
