#pragma once

#include "codegen/lower/program_scope.h"
#include "codegen/lower/tile_lowering.h"

namespace sinter {

/// Element offset of an index (i64) along an axis of an operand of the contraction, i64.
kir::ExprId offset_along(const ProgramScope& scope, const TensorAccess& operand,
                         program::AxisId axis, kir::ExprId index);
/// Element (i64) of an operand at an index (i64) along its own axis, at the start of the contracted
/// axis, in the block's part of all other axes.
kir::ExprId operand_element(const ProgramScope& scope, const TensorAccess& operand,
                            program::AxisId own, program::AxisId contracted, kir::ExprId index);

/// Lowers the copies of one operand of a contraction into its tile in shared memory. Each thread
/// copies every `threads`-th access of the tile.
class OperandCopies {
 public:
  /// The arguments must outlive the object.
  OperandCopies(const ProgramScope& scope, const TileLowering& tiles, const program::Copy& copy);

  /// Declares what all iterations of the pipeline share: the place of each of the thread's accesses
  /// in the operand and in the tile. The block's parts of the axes must be known.
  void declare();

  /// Starts the copies of one part of the contracted axis, which begins at `begin` (i64), into a
  /// stage of the tile (i32).
  void copy(kir::ExprId begin, kir::ExprId stage);

 private:
  /// One of the thread's accesses.
  struct Access {
    kir::ExprId source;  ///< Its element in the operand at the start of the contracted axis, i64.
    kir::ExprId target;  ///< Its element in a stage of the tile, i32.
  };
  [[nodiscard]] Access access(kir::ExprId number);
  void copy_plain(kir::ExprId index, kir::ExprId target, kir::ExprId inside);

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const program::Copy& copy_;
  const program::Tile& tile_;
  const TensorAccess& operand_;
  kir::BufferId global_, shared_;
  bool contracted_is_inner_;
  program::AxisId own_, contracted_;  ///< The axes of the tile.
  int64_t accesses_ = 0;              ///< Of a thread, for one stage.
  kir::VarId sources_, targets_;
};

}  // namespace sinter
