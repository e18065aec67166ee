#pragma once

#include "codegen/lower/tile_lowering.h"
#include "scheduler/analysis/stages.h"

namespace sinter {

/// A tile of elements of a segment without reductions. A thread has `unroll` vectors, reach()
/// elements apart. The lowerings of pointwise and multi-tensor schedules share this class; they own
/// the loops and indices that lead to a tile.
class ElementTile {
 public:
  /// The arguments must outlive the object.
  ElementTile(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
              kir::KernelBuilder& builder, TileLowering& tiles)
      : facts_(facts), schedule_(schedule), list_(list), builder_(builder), tiles_(tiles) {}

  /// Elements between two vectors of a thread: one vector for each thread of the block.
  [[nodiscard]] int64_t reach() const {
    return schedule_.threads_per_block() * schedule_.vector_width;
  }
  [[nodiscard]] int64_t size() const { return reach() * schedule_.unroll; }
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

  const SegmentFacts& facts_;
  const Schedule& schedule_;
  const StageList& list_;
  kir::KernelBuilder& builder_;
  TileLowering& tiles_;
  kir::ExprId begin_;  ///< The tile's first element.
  kir::ExprId first_;
};

}  // namespace sinter
