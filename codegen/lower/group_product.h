#pragma once

#include <functional>
#include <variant>

#include "codegen/lower/tile_product.h"

namespace sinter {

/// Lowers a contraction of two tiles in shared memory into the fragment of a warp group. The
/// fragment is a tile of registers of two lanes, whose groups kir::Wgmma describes: those of the
/// first 64 rows, then those of the next. A left operand in two parts (program::Contract) is loaded
/// into registers and split there.
class GroupProduct : TileProduct {
 public:
  /// The arguments must outlive the object.
  GroupProduct(const ProgramScope& scope, const program::Contract& contract)
      : TileProduct(scope, contract) {}

  /// Starts the products of one stage of the tiles (i32) and ends their group. A WgmmaWait has to
  /// follow. The products of a tile's first stage replace what the sums held.
  void start(kir::ExprId stage, bool is_first) const;

 private:
  using Left = std::variant<kir::SharedMatrix, kir::RegisterMatrix>;

  /// The part of a stage (i32) of an operand's tile from index `own` of its own axis (i32) and
  /// element `k` on.
  [[nodiscard]] kir::SharedMatrix matrix(program::TileId tile, kir::ExprId stage, kir::ExprId own,
                                         int64_t k) const;
  /// Where the rows of instruction `i` begin in the block's tile, i32.
  [[nodiscard]] kir::ExprId row(int64_t i) const;
  /// Starts the products for the step along k that begins at element `k`. `left` gives what an
  /// instruction along the rows has of the left operand. With `replaces` their sums hold nothing
  /// yet.
  void multiply(const std::function<Left(int64_t i)>& left, program::TileId right,
                kir::ExprId stage, int64_t k, bool replaces) const;
  /// The same of an operand in two parts.
  void start_split(kir::ExprId stage, bool is_first) const;
};

}  // namespace sinter
