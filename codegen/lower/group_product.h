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
  /// A tile of an operand, and which of its copies is in use.
  struct Operand {
    program::TileId tile;
    kir::ExprId copy;
    bool is_left;
  };
  /// The operand's part from index `own` of its own axis (i32) and element `k` on.
  [[nodiscard]] kir::SharedMatrix matrix(const Operand& operand, kir::ExprId own, int64_t k) const;
  /// Starts the products of two tiles for one step along k.
  void multiply(const Operand& left, const Operand& right, int64_t k) const;
};

}  // namespace sinter
