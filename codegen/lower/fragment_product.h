#pragma once

#include "codegen/lower/tile_product.h"

namespace sinter {

/// Lowers a contraction of two tiles in shared memory into a fragment, by the matrix loads and
/// matrix instructions of one warp. The fragment is a tile of registers of two lanes. For
/// instruction (i, j) of the warp's rows and columns and half h of its rows, group
/// (i * columns + j) * 2 + h holds two adjacent columns (kir::Mma).
class FragmentProduct : TileProduct {
 public:
  /// The arguments must outlive the object.
  FragmentProduct(const ProgramScope& scope, const program::Contract& contract)
      : TileProduct(scope, contract) {}

  /// Adds the products of one stage of the tiles (i32).
  void add(kir::ExprId stage);

 private:
  /// An operand's part of one instruction.
  struct Operand {
    const program::Tile& tile;
    kir::BufferId shared;
    kir::VarId registers;
    int64_t groups;
    kir::ExprId begin;   ///< Of the warp's part along the operand's own axis, i32.
    bool is_transposed;  ///< The rows of the tile are parts of the contracted axis.
    bool is_left;
  };
  [[nodiscard]] Operand operand(program::TileId id, int64_t groups);
  /// Rounds what was loaded to TF32.
  void round(const Operand& operand);
  /// Splits what was loaded (tf32_parts()). Leaves the first parts in the registers, and returns
  /// the second ones.
  kir::VarId split(const Operand& operand);
  /// One instruction for each part of the fragment, of these registers of both operands.
  void multiply(kir::VarId left, kir::VarId right);
  /// Loads four matrices of an operand for step `k` of the stage: the registers of one instruction
  /// of the left operand, or of two of the right one.
  void load(const Operand& operand, kir::ExprId stage, kir::ExprId k, kir::ExprId number);
  /// The same of a transposed operand of 4 bytes, which no matrix load transposes.
  void load_words(const Operand& operand, kir::ExprId stage, kir::ExprId k, kir::ExprId number);
};

// What a lane holds of one instruction (PTX ISA, "mma" and "wgmma", accumulators): pairs of
// adjacent columns of rows lane / 4 and lane / 4 + 8 of the 16 rows of its warp.
inline constexpr int64_t kLanesOfRow = 4;
inline constexpr int64_t kPair = kir::Mma::kAccumulatorLanes;

/// Rows of an instruction: 16 for each warp that executes it.
int64_t instruction_rows(const program::Tile& fragment);
/// Instructions of a fragment along its rows, and along its columns, in units of 8. Each warp holds
/// 16 rows of one.
int64_t row_instructions(const program::Tile& fragment);
int64_t column_instructions(const program::Tile& fragment);
/// Halves of an instruction's rows that a fragment has: 1 for one of eight rows.
int64_t halves_of_rows(const program::Tile& fragment);

/// The first of the eight rows of a fragment that the warp holds in half (i32) of instruction `i`
/// (i32) along the rows, in the block's tile, i32.
kir::ExprId first_row(const ProgramScope& scope, const program::Tile& fragment, kir::ExprId i,
                      kir::ExprId half);
/// Which of the eight the lane holds, i32.
kir::ExprId row_of_lane(const ProgramScope& scope);

}  // namespace sinter
