#pragma once

#include "codegen/lower/program_scope.h"

namespace sinter {

/// Parts of an operand's tile, in shared memory, that the lanes of a warp load into registers for
/// matrix instructions: four registers for 16 elements along the operand's own axis, the one that
/// the result has, and 32 bytes along k. They are the left operand of an instruction, or the right
/// ones of two (kir::Mma).
class OperandFragment {
 public:
  /// Declares a tile of `groups` registers. `own` is the operand's own axis.
  OperandFragment(const ProgramScope& scope, program::TileId tile, program::AxisId own,
                  bool is_left, int64_t groups);

  [[nodiscard]] kir::VarId registers() const { return registers_; }
  /// Loads the four registers from `group` on: elements from `own` on, in the block's tile, and
  /// step `k` of 32 bytes of a stage. All are i32, `own` a multiple of eight.
  void load(kir::ExprId stage, kir::ExprId k, kir::ExprId own, kir::ExprId group) const;
  /// Rounds what was loaded to TF32.
  void round() const;
  /// The parts of what was loaded (split_to_tf32()). The first ones take its place, or have
  /// registers of their own.
  struct Parts {
    kir::VarId first, second;
  };
  [[nodiscard]] Parts split() const { return split_into(registers_); }
  [[nodiscard]] Parts split_apart() const;

 private:
  /// Elements of a step along k.
  [[nodiscard]] int64_t step_elements() const {
    return kir::Wgmma::kDepthBytes / bytes_of(tile_.type);
  }
  [[nodiscard]] Parts split_into(kir::VarId first) const;
  /// What a step along k has of a transposed operand of 4 bytes, which no matrix load transposes.
  void load_words(kir::ExprId stage, kir::ExprId k, kir::ExprId own, kir::ExprId group) const;

  const ProgramScope& scope_;
  const program::Tile& tile_;
  kir::BufferId shared_;
  kir::VarId registers_;
  int64_t groups_;
  bool is_transposed_;  ///< The rows of the tile are parts of the contracted axis.
  bool is_left_;
};

}  // namespace sinter
