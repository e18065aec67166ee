#pragma once

#include <vector>

#include "codegen/lower/handed_walk.h"
#include "codegen/lower/tile_lowering.h"
#include "codegen/lower/tile_partials.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

/// Evaluates what follows from a tile that was handed over in shared memory, where nothing is
/// reduced: each lane of the epilogue for the chunks that it has of a row.
class HandedElements {
 public:
  /// The arguments must outlive the object. `loop` gives the rows of an iteration.
  HandedElements(const ProgramScope& scope, const TileLowering& buffers, const program::Loop& loop,
                 const program::Region& region);

  void evaluate();

 private:
  /// Evaluates the tile; it reaches past the columns where vectors are predicated.
  void body(Predication predication);
  /// Loads what all rows share of the lane's columns.
  void load_common(Predication predication);
  /// Evaluates the rows of an iteration (i32).
  void evaluate_rows(kir::ExprId iteration, Predication predication);
  /// Evaluates and stores the row that was entered.
  void evaluate_row(Predication predication);
  /// Of a vector of the lane in a row (i32, from 0 on).
  [[nodiscard]] TilePosition position(kir::ExprId number, Predication predication) const;

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const program::Region& region_;
  const program::Tile& tile_;
  const Schedule schedule_;
  const StageList list_;
  const int64_t lanes_;    ///< Of a row.
  const int64_t vectors_;  ///< Of a lane in a row.
  const int64_t rows_;     ///< That a lane has together.
  TileLowering tiles_;
  HandedWalk handed_;
  TilePartials partials_;
  kir::ExprId first_chunk_;   ///< Of the lane in a row of the tile, i32.
  kir::ExprId first_column_;  ///< Of the lane, in the column index type.
  kir::VarId chunks_;         ///< What the lane has of the current row.
};

}  // namespace sinter
