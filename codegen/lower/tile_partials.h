#pragma once

#include <functional>

#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/program_scope.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

/// Reductions over the rows of a contraction's tile. Each lane accumulates the rows that it
/// evaluates. The lanes of a warp that have the same columns then combine what they have, in a
/// fixed tree, and leave one row of partial results. Without such reductions nothing is emitted.
class TilePartials {
 public:
  /// How the lanes of a warp have a row: `lanes` of them `groups` vectors of `width` columns each.
  /// Lanes whose numbers differ by a multiple of `lanes` have the same columns.
  struct Layout {
    int64_t lanes = 1;
    int64_t groups = 1;
    int64_t width = 1;
  };
  /// The others must outlive the object.
  TilePartials(const ProgramScope& scope, TileLowering& tiles, const program::Region& region,
               const Stage& stage, Layout layout);

  /// Declares the accumulators of a tile, without rows.
  void declare();
  /// Adds the current element of the current row, which lies in such a group and lane of it.
  void add(kir::ExprId group, kir::ExprId lane);
  /// Stores what the tile's rows give as row `part` (i32) of its partial results. `position` is
  /// that of a group.
  void leave(kir::ExprId part, const std::function<TilePosition(kir::ExprId group)>& position);

 private:
  [[nodiscard]] bool has_any() const { return region_.partial_rows > 0; }
  /// The number of the block's tile among those of all rows, i64.
  [[nodiscard]] kir::ExprId tile_of_rows() const;

  const ProgramScope& scope_;
  TileLowering& tiles_;
  const program::Region& region_;
  const Stage& stage_;
  const Layout layout_;
  const Schedule of_lanes_;
  OuterAccumulators sums_;
};

}  // namespace sinter
