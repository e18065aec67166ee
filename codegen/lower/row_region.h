#pragma once

#include <map>
#include <vector>

#include "codegen/lower/rows_of_tile.h"
#include "codegen/lower/staged_stores.h"

namespace sinter {

/// Evaluates what follows from a fragment that holds whole rows, with reductions of the rows. The
/// four lanes that hold a row of a fragment have its columns as four threads of a row kernel have
/// them that take two columns at a time: RowBody evaluates the rows, one after the other.
class RowRegion : RowsOfTile {
 public:
  /// The arguments must outlive the object.
  RowRegion(const ProgramScope& scope, const TileLowering& buffers, const program::Region& region);

  void evaluate();

 private:
  /// Evaluates the rows that the lanes hold in these halves (i32) of the current instruction.
  void evaluate_rows(const std::vector<kir::ExprId>& halves);

  const program::Region& region_;
  const program::Tile& tile_;
  StagedStores staged_;
  kir::ExprId i_;                              ///< The instruction of the current rows.
  std::map<kir::ExprId, kir::ExprId> halves_;  ///< By the number of a row: its half of it.
};

}  // namespace sinter
