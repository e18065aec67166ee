#pragma once

#include <functional>

#include "codegen/lower/program_scope.h"
#include "codegen/lower/tile_lowering.h"
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
  void evaluate_row(kir::ExprId i, kir::ExprId half, Predication predication);
  /// Adjacent columns that are loaded and stored at once: from lane `lane` of a group of the
  /// fragment on, whose first column is `column`.
  void evaluate_vector(kir::ExprId group, kir::ExprId column, int64_t lane,
                       Predication predication);

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const StageList& list_;
  TileLowering& tiles_;
  const program::Region& region_;
  const program::Tile& tile_;
  kir::VarId fragment_;
  kir::ExprId first_column_;  ///< Of the lane, in the column index type.
};

}  // namespace sinter
