#pragma once

#include "codegen/lower/tile_product.h"

namespace sinter {

/// Lowers a contraction of two tiles in shared memory into the fragment of a warp group. The
/// fragment is a tile of registers of two lanes, whose groups kir::Wgmma describes: those of the
/// first 64 rows, then those of the next.
class GroupProduct : TileProduct {
 public:
  /// The arguments must outlive the object.
  GroupProduct(const ProgramScope& scope, const program::Contract& contract)
      : TileProduct(scope, contract) {}

  /// Starts the products of one stage of the tiles (i32) and ends their group. A WgmmaWait has to
  /// follow.
  void start(kir::ExprId stage) const;

 private:
  /// The operand's part from index `own` of its own axis (i32) and element `k` on.
  [[nodiscard]] kir::SharedMatrix matrix(program::TileId id, kir::ExprId stage, kir::ExprId own,
                                         int64_t k) const;
};

}  // namespace sinter
