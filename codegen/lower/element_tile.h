#pragma once

#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/program/program.h"

namespace sinter {

/// A tile of elements of a segment without reductions (program::Elements). The lowerings of
/// programs and of multi-tensor schedules share this class; they own the loops and indices that
/// lead to a tile.
class ElementTile {
 public:
  /// The arguments by reference must outlive the object. The tile is that of a block of `threads`.
  ElementTile(const StageList& list, int64_t threads, const program::Elements& elements,
              kir::KernelBuilder& builder, TileLowering& tiles)
      : list_(list), threads_(threads), elements_(elements), builder_(builder), tiles_(tiles) {}

  /// Elements between two vectors of a thread: one vector for each thread of the block.
  [[nodiscard]] int64_t reach() const { return elements_.reach(threads_); }
  [[nodiscard]] int64_t size() const { return elements_.tile(threads_); }
  /// Emits a comment that describes the tile.
  void describe();
  /// Declares the tile's first element and the thread's, from the number of the tile (column type).
  void begin(kir::ExprId tile);
  [[nodiscard]] kir::ExprId first() const { return first_; }  ///< The thread's first element.

  /// Loads, evaluates and stores the tile. A tile that reaches past `count` elements (column type)
  /// is predicated: by vector if no vector straddles the end.
  void evaluate(kir::ExprId count, Predication tail);

 private:
  TilePosition position(kir::ExprId group, Predication predication);
  void body(Predication predication);

  const StageList& list_;
  int64_t threads_;
  program::Elements elements_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  kir::ExprId begin_;  ///< The tile's first element.
  kir::ExprId first_;
};

}  // namespace sinter
