#pragma once

#include <map>
#include <vector>

#include "codegen/lower/rows_of_tile.h"

namespace sinter {

/// Evaluates what follows from a tile that was handed over in shared memory. The warps of the
/// epilogue take its rows in turns, several at once: RowBody evaluates them as it evaluates the
/// rows of a kernel whose rows have up to a warp each.
class HandedRows : RowsOfTile {
 public:
  /// The arguments must outlive the object. `loop` gives the rows of an iteration.
  HandedRows(const ProgramScope& scope, const TileLowering& buffers, const program::Loop& loop,
             const program::Region& region);

  void evaluate();

 private:
  /// Evaluates the rows of an iteration (i32).
  void evaluate_rows(kir::ExprId iteration);
  /// Loads the lane's chunks of a row of the tile (i32) into registers.
  void load(kir::VarId chunks, kir::ExprId row);
  void release(kir::ExprId iteration);

  const program::Loop& loop_;
  const program::Region& region_;
  const program::Tile& tile_;
  kir::ExprId warp_;                          ///< Among those of the epilogue, i32.
  std::map<kir::ExprId, kir::VarId> chunks_;  ///< By the number of a row: what was loaded of it.
};

}  // namespace sinter
