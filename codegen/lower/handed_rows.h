#pragma once

#include <map>
#include <vector>

#include "codegen/lower/handed_walk.h"
#include "codegen/lower/rows_of_tile.h"

namespace sinter {

/// Evaluates what follows from a tile that was handed over in shared memory, where rows are
/// reduced: RowBody evaluates them as it evaluates the rows of a kernel whose rows have up to a
/// warp each.
class HandedRows : RowsOfTile {
 public:
  /// The arguments must outlive the object. `loop` gives the rows of an iteration.
  HandedRows(const ProgramScope& scope, const TileLowering& buffers, const program::Loop& loop,
             const program::Region& region);

  void evaluate();

 private:
  /// Evaluates the rows of an iteration (i32), or a half of that.
  void evaluate_rows(kir::ExprId iteration, kir::ReduceHalf half);

  const program::Region& region_;
  HandedWalk handed_;
  std::map<kir::ExprId, kir::VarId> chunks_;  ///< By the number of a row: what was loaded of it.
};

}  // namespace sinter
