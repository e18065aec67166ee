#pragma once

#include <functional>
#include <vector>

#include "codegen/lower/outer_accumulators.h"
#include "codegen/lower/program_scope.h"
#include "codegen/lower/row_body.h"
#include "codegen/lower/row_walk.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Evaluates rows of a block's tile by RowBody. Who derives from it says where the elements of a
/// tile are and which threads have a row.
class RowsOfTile {
 protected:
  /// The arguments must outlive the object.
  RowsOfTile(const ProgramScope& scope, const TileLowering& buffers);

  /// Declares what all rows of a thread share.
  void prepare();
  /// How the rows are exchanged over a cluster: by `group` (i32) of so many, each a warp's.
  [[nodiscard]] RowExchange exchange(kir::ExprId group, int64_t groups) const;
  /// Called when the tiles have entered one of the rows, with its number among the space's (i64).
  using EnterRow = std::function<void(size_t row, kir::ExprId number)>;
  /// Evaluates the rows at these places of the block's tile (i32), rows_together_ of them.
  void evaluate_together(program::AxisId m, const std::vector<kir::ExprId>& in_tile,
                         const RowExchange& exchange, const EnterRow& enter);
  /// Counts an exchange of the block.
  void next_exchange();

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const Schedule schedule_;  ///< Of the rows.
  const int64_t rows_together_;
  TileLowering tiles_;
  RowWalk walk_;

 private:
  OuterAccumulators outer_;
  RowBody body_;
};

}  // namespace sinter
