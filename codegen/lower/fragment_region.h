#pragma once

#include <functional>

#include "codegen/lower/program_scope.h"
#include "codegen/lower/staged_stores.h"
#include "codegen/lower/tile_lowering.h"
#include "codegen/lower/tile_partials.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

/// Evaluates and stores what follows from a fragment: each lane for the elements that it holds.
class FragmentRegion {
 public:
  /// The arguments must outlive the object.
  FragmentRegion(const ProgramScope& scope, const StageList& list, TileLowering& tiles,
                 const program::Region& region);

  void evaluate();

 private:
  void body(Predication predication);
  [[nodiscard]] kir::ExprId lane_column();
  /// Evaluates `count` columns, from `first` of the fragment on, of the lane's row in half of an
  /// instruction.
  void evaluate_row(kir::ExprId i, kir::ExprId half, int64_t first, int64_t count,
                    Predication predication);
  /// Adjacent columns that are evaluated at once.
  struct Vector {
    kir::ExprId group;      ///< Of the fragment.
    int64_t lane;           ///< Of that group, where they begin.
    kir::ExprId number;     ///< Among the lane's vectors of the row, i32.
    kir::ExprId column;     ///< Where they begin, in the column index type.
    kir::ExprId collected;  ///< The same among those that staged_ collects, i32.
  };
  [[nodiscard]] int64_t vectors_of_instruction() const;
  /// Column of an element of the lane's pair (0 or 1, i32) of instruction j (i32), in the column
  /// index type.
  [[nodiscard]] kir::ExprId column_of(kir::ExprId j, kir::ExprId lane);
  void evaluate_vector(const Vector& vector, Predication predication);

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const StageList& list_;
  TileLowering& tiles_;
  const program::Region& region_;
  const program::Tile& tile_;
  kir::VarId fragment_;
  StagedStores staged_;
  TilePartials partials_;
  kir::ExprId first_column_;  ///< Of the lane, in the column index type.
};

}  // namespace sinter
