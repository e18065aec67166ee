#pragma once

#include "codegen/lower/program_scope.h"
#include "codegen/lower/tile_lowering.h"
#include "scheduler/program/operand_map.h"

namespace sinter {

/// Lowers the copies of one operand of a contraction into a tile in shared memory by a tensor map,
/// a box for every line of the tile's columns. One thread executes them.
class TensorCopies {
 public:
  /// Adds the tensor map to the kernel. The arguments must outlive the object.
  TensorCopies(const ProgramScope& scope, const TileLowering& tiles, const program::Copy& copy);

  /// Bytes of all copies of one stage. Those of elements outside of the operand count too.
  [[nodiscard]] int64_t bytes() const;

  /// Starts the copies of one part of the contracted axis, which begins at `begin` (i32), into a
  /// stage of the tile (i32), whose mbarrier has the same number.
  void copy(kir::ExprId begin, kir::ExprId stage, kir::MbarrierId full) const;

 private:
  [[nodiscard]] kir::ExprId batch() const;

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const program::Copy& copy_;
  const program::Tile& tile_;
  program::AxisId own_;
  program::OperandMap operand_;
  kir::TensorMapId map_;
};

}  // namespace sinter
