#pragma once

#include <functional>

#include "codegen/lower/program_scope.h"

namespace sinter {

/// How the warps of an epilogue walk over a tile that was handed over in shared memory. They take
/// its rows in turns, several rows of a warp in an iteration. `lanes` of a warp have 16-byte chunks
/// of a row, one after the other.
class HandedWalk {
 public:
  /// The arguments must outlive the object. `loop` gives the rows of an iteration.
  HandedWalk(const ProgramScope& scope, const program::Loop& loop, program::TileId tile,
             int64_t lanes);

  /// Waits for the tile, part by part, and calls `evaluate` in each of the warp's iterations (i32).
  /// It must call release() when it has loaded its rows.
  void run(const std::function<void(kir::ExprId iteration)>& evaluate);
  /// The same, with two calls in each iteration: first `before` in all of them, then `evaluate` in
  /// all of them, which calls release().
  void run_twice(const std::function<void(kir::ExprId iteration)>& before,
                 const std::function<void(kir::ExprId iteration)>& evaluate);
  /// Iterations of all warps over the tile.
  [[nodiscard]] int64_t iterations() const { return tile_.rows.extent / loop_.step; }
  /// Number of the warp among those of the epilogue, i32.
  [[nodiscard]] kir::ExprId warp() const { return warp_; }
  /// The same, where run() may not have declared it.
  [[nodiscard]] kir::ExprId number_of_warp() const;
  /// The row of the tile (i32) that the lane has in an iteration. `number` counts those that it has
  /// together.
  [[nodiscard]] kir::ExprId row(kir::ExprId iteration, int64_t number) const;
  /// Loads the lane's chunks of a row of the tile (i32) into registers, `count` of them. `first` is
  /// the first one (i32).
  void load(kir::VarId chunks, kir::ExprId row, kir::ExprId first, int64_t count) const;
  /// Gives a part of the tile back when the warp has loaded its last rows of it.
  void release(kir::ExprId iteration) const;

 private:
  /// Iterations of all warps over a part of the tile.
  [[nodiscard]] int64_t iterations_of_part() const;
  void wait(kir::ExprId iteration) const;
  void loop(const std::function<void(kir::ExprId)>& body) const;

  const ProgramScope& scope_;
  kir::KernelBuilder& builder_;
  const program::Loop& loop_;
  const program::TileId id_;
  const program::Tile& tile_;
  const int64_t lanes_;
  kir::ExprId warp_;
};

}  // namespace sinter
