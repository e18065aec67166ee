#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/kernel/kernel_builder.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/program/program.h"
#include "scheduler/program/shared_layout.h"

namespace sinter {

/// Elements of a tile.
inline int64_t elements_of(const program::Tile& tile) {
  return tile.rows.extent * tile.columns.extent;
}

struct ProgramScope;

/// The pipeline by which warp groups hand tiles over to the warps of the epilogue. It has two
/// mbarriers for each stage of the tile and each part of it, `full` and `empty`.
struct HandedTile {
  kir::MbarrierId full, empty;
  int64_t stages = 1;
  int64_t parts = 1;
  kir::VarId stage, parity;  ///< Of the role's current tile.

  /// The stage of the current tile, i32.
  [[nodiscard]] kir::ExprId current(const ProgramScope& scope) const;
  /// Number of the mbarriers of a part (i32) of the current tile.
  [[nodiscard]] kir::ExprId barrier(const ProgramScope& scope, kir::ExprId part) const;
  /// Goes on to the next tile.
  void advance(const ProgramScope& scope) const;
};

/// What the steps of a program refer to while it is lowered.
struct ProgramScope {
  const program::Program& program;
  const SegmentFacts& facts;
  kir::KernelBuilder& builder;
  std::map<program::AxisId, kir::ExprId> extents{};    ///< Elements of each axis, i64.
  std::map<program::AxisId, kir::ParamId> launched{};  ///< Of those that the launch gives.
  /// Where the block's part of each axis begins, i64.
  std::map<program::AxisId, kir::ExprId> begins{};
  /// Where the part of the warp or warp group begins in the block's, i32; only of axes that they
  /// share.
  std::map<program::AxisId, kir::ExprId> part_begins{};
  std::map<program::TileId, kir::BufferId>
      shared{};  ///< All stages of a tile, one after the other.
  std::map<program::TileId, kir::VarId> fragments{};
  /// In a cluster or team: how often its blocks have exchanged what they know of rows, i32.
  kir::VarId exchange{};
  kir::BufferId mail{};  ///< Of the messages of teams.
  std::optional<HandedTile> handed{};
  kir::ExprId thread{};  ///< Number of the thread in its block, i32.
  kir::ExprId lane{};    ///< Number of the thread in its warp, i32.

  [[nodiscard]] const ContractedSpace& contraction() const { return *facts.space.contraction; }
  [[nodiscard]] const program::Tile& tile(program::TileId id) const { return program.tiles[id]; }
  [[nodiscard]] kir::ExprId i32(int64_t value) const { return builder.integer(value); }
  [[nodiscard]] kir::ExprId i64(int64_t value) const { return builder.integer(value, DType::kI64); }
  [[nodiscard]] kir::ExprId wide(kir::ExprId x) const { return builder.cast(x, DType::kI64); }
  /// 0 of a type.
  [[nodiscard]] kir::ExprId zero(DType type) const {
    return builder.cast(is_float(type) ? builder.real(0.0) : i32(0), type);
  }
  /// A variable that holds the value; constants stay as they are.
  [[nodiscard]] kir::ExprId named(std::string name, kir::ExprId x) const {
    if (builder.as_integer(x) != nullptr) return x;
    return builder.ref(builder.declare(std::move(name), x));
  }
  /// Number among the rows of the space of a row of the block's batch. Both are i64; `rows` is the
  /// axis of the rows.
  [[nodiscard]] kir::ExprId row_of_space(program::AxisId rows, kir::ExprId row) const {
    for (const auto& [axis, begin] : begins) {
      if (program.axes[axis].first_loop < program.axes[rows].first_loop)
        row = builder.add(builder.mul(begin, extents.at(rows)), row);
    }
    return row;
  }
  /// x modulo a constant.
  [[nodiscard]] kir::ExprId remainder(kir::ExprId x, int64_t by) const {
    return builder.rem(x, builder.integer(by, builder.type_of(x)));
  }
  /// Number of an element among all stages of a tile in shared memory, at a place of the first line
  /// of a row of a stage; all are i32.
  [[nodiscard]] kir::ExprId shared_element(const program::Tile& tile, kir::ExprId stage,
                                           kir::ExprId row, kir::ExprId place) const {
    return builder.add(builder.add(builder.mul(stage, i32(elements_of(tile))),
                                   builder.mul(row, i32(tile.line_columns()))),
                       place);
  }
  /// Where the swizzle puts a chunk (i32) of a row (i32) of a tile, or of one that begins eight
  /// rows apart from it.
  [[nodiscard]] kir::ExprId swizzled(const program::SharedLayout& layout, kir::ExprId row,
                                     kir::ExprId chunk) const {
    if (layout.period() == 1) return chunk;
    const kir::ExprId line = builder.div(row, i32(layout.rows_per_line()));
    return builder.apply(PointwiseFn::kXor, {chunk, remainder(line, layout.period())});
  }
};

/// The priority in L2 of what a copy reads.
inline kir::CacheHint hint_of(const program::Copy& copy) {
  return copy.evict_first ? kir::CacheHint::kEvictFirst : kir::CacheHint::kDefault;
}

/// Elements of a 16-byte chunk of a tile, and how its chunks lie in shared memory.
inline int64_t chunk_elements(const program::Tile& tile) {
  return program::kChunkBytes / bytes_of(tile.type);
}
inline program::SharedLayout layout_of(const program::Tile& tile) {
  return {.chunks = tile.in_order ? 1 : tile.line_columns() / chunk_elements(tile)};
}

inline kir::ExprId HandedTile::current(const ProgramScope& scope) const {
  return stages == 1 ? scope.i32(0) : scope.builder.ref(stage);
}

inline kir::ExprId HandedTile::barrier(const ProgramScope& scope, kir::ExprId part) const {
  return scope.builder.add(scope.builder.mul(current(scope), scope.i32(parts)), part);
}

inline void HandedTile::advance(const ProgramScope& scope) const {
  kir::KernelBuilder& builder = scope.builder;
  const kir::ExprId other = builder.sub(scope.i32(1), builder.ref(parity));
  if (stages == 1) {
    builder.assign(parity, other);
    return;
  }
  const kir::ExprId next = builder.add(builder.ref(stage), scope.i32(1));
  builder.assign(stage, builder.select(builder.equal(next, scope.i32(stages)), scope.i32(0), next));
  builder.when(builder.equal(builder.ref(stage), scope.i32(0)),
               [&] { builder.assign(parity, other); });
}

/// Number of an element of a tile that is handed over, at a row and column (i32).
inline kir::ExprId handed_element(const ProgramScope& scope, const program::Tile& tile,
                                  kir::ExprId row, kir::ExprId column) {
  kir::KernelBuilder& builder = scope.builder;
  const int64_t of_chunk = chunk_elements(tile);
  const kir::ExprId chunk =
      scope.swizzled(layout_of(tile), row, builder.div(column, scope.i32(of_chunk)));
  const kir::ExprId place =
      builder.add(builder.mul(chunk, scope.i32(of_chunk)), scope.remainder(column, of_chunk));
  return scope.shared_element(tile, scope.handed->current(scope), row, place);
}

}  // namespace sinter
