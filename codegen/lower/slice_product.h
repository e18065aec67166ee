#pragma once

#include "codegen/lower/tile_lowering.h"
#include "codegen/lower/tile_product.h"

namespace sinter {

/// Lowers a contraction whose warps take lines of the contracted axis in turns (sliced K), straight
/// from global memory to registers.
///
/// Loads of whole lines of 128 bytes read memory as fast as if nothing were computed: lane l loads
/// chunk l % 8 of the line of column l / 8, of four columns at once. A matrix instruction takes
/// chunk l % 4 of column l / 4 from lane l, and the same chunk of all rows. So its columns 2 c and
/// 2 c + 1 are the two halves of the line of column c. Its rows 0 to 7 have the first half of the
/// lines of eight rows of the tile, and its rows 8 to 15 the second half. Of its accumulators those
/// count that have the same half of both: even columns of rows 0 to 7, odd ones of rows 8 to 15.
class SliceProduct : TileProduct {
 public:
  /// The arguments must outlive the object.
  SliceProduct(const ProgramScope& scope, const TileLowering& tiles,
               const program::Pipeline& pipeline);

  /// Multiplies all lines of the warp. The block's parts of the axes must be known.
  void multiply();
  /// Puts the warp's slice into shared memory, and waits for those of all warps.
  void put(const program::Merge& merge);
  /// Adds the slices into the fragment of the warp, in the order of the warps.
  void take(const program::Merge& merge);

 private:
  /// An operand, and where the lane loads it.
  struct Operand {
    const program::Copy& copy;
    const program::Tile& tile;
    const TensorAccess& access;
    kir::BufferId buffer;
    int64_t rows_together;    ///< Rows of the tile, or columns, whose chunks a warp loads at once.
    int64_t chunks_together;  ///< Chunks of each of them.
    /// Element at the start of the contracted axis, i64, of each row or column that the lane loads.
    kir::VarId first{};
    kir::VarId end{};       ///< End of the contracted axis, or 0 for rows beyond the end, i32.
    kir::ExprId in_line{};  ///< First element of the lane's chunk in a line, i32.
    kir::VarId loaded{};    ///< The chunks of all stages.
  };
  [[nodiscard]] Operand operand(const TileLowering& tiles, bool of_rows) const;
  /// Loads of a lane for a line of all rows of the tile, or of all columns.
  static int64_t vectors(const Operand& operand);
  void declare(Operand& operand);
  /// Loads the lines that begin at `begin` (i32) into a stage (i32).
  void load(const Operand& operand, kir::ExprId begin, kir::ExprId stage);
  /// Elements of the contracted axis.
  [[nodiscard]] int64_t contracted() const;
  /// Multiplies one line of the rows with one stage of the columns.
  void multiply_line(kir::ExprId stage);
  /// Puts a word (i32) of what was loaded as vector `from` into register `to`.
  void take_word(const Operand& operand, kir::VarId registers, kir::ExprId from, kir::ExprId word,
                 int64_t to);
  /// The first group of the sums of instruction (i, j).
  [[nodiscard]] kir::ExprId accumulator(kir::ExprId i, kir::ExprId j) const;

  const program::Pipeline& pipeline_;
  Operand left_, right_;
  kir::VarId sums_;
};

}  // namespace sinter
