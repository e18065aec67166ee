#pragma once

#include "codegen/lower/operand_fragment.h"
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
  /// So many registers of an operand.
  [[nodiscard]] OperandFragment operand(program::TileId tile, int64_t groups) const;
  /// One instruction for each part of the fragment, of these registers of both operands.
  void multiply(kir::VarId left, kir::VarId right);
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
/// Number of the warp among those that share the rows of the block's tile, i32.
kir::ExprId warp_of_rows(const ProgramScope& scope, const program::Tile& fragment);
/// Which of the eight the lane holds, i32.
kir::ExprId row_of_lane(const ProgramScope& scope);

}  // namespace sinter
