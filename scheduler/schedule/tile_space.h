#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

// Geometry of schedules whose blocks process two-dimensional tiles of a segment without reductions:
// shared by the transpose family, its estimates and its lowering.

/// The two dimensions of the space that tiles span. Elements are evaluated in the order of `along`.
/// Tensors that are fastest along it are read and stored directly. Tensors that are fastest along
/// `across` pass through shared memory.
struct TileAxes {
  size_t along = 0;
  size_t across = 0;
  friend bool operator==(const TileAxes&, const TileAxes&) = default;
};

/// The dimension in which a tensor's adjacent elements are nearest in memory; empty if it has one
/// element in all.
std::optional<size_t> fastest_dimension(const IterationSpace& space, const TensorAccess& access);

/// The two dimensions along which most bytes are fastest, `along` being the first. If two are
/// equal, the later dimension, which the first output is fastest along. Empty if all tensors are
/// fastest along one.
std::optional<TileAxes> tile_axes(const SegmentFacts& facts);

/// The same segment with one dimension as its columns and the others, in their order, as its rows.
/// The segment reduces nothing.
SegmentFacts walked_along(const SegmentFacts& facts, size_t dimension);

/// Elements of a block's tile: threads_per_row vectors along `along`, and rows_per_block times
/// unroll lines across. TileWalk says which of a tile's vectors a thread has.
struct TileShape {
  int64_t along = 1;
  int64_t across = 1;
  friend bool operator==(const TileShape&, const TileShape&) = default;
};
TileShape tile_shape(const Schedule& schedule);

/// How the threads of a block walk a tile in vectors of `width` elements along its fast side.
/// `lanes` neighbouring threads have neighbouring vectors of a line; the next threads have those of
/// the next line. After the last line the next `lanes` vectors follow. All fields are powers of
/// two.
struct TileWalk {
  int64_t fast = 1;     ///< Elements of the tile along the vectors.
  int64_t slow = 1;     ///< Lines.
  int64_t width = 1;    ///< Elements of a vector.
  int64_t lanes = 1;    ///< A divisor of 32.
  int64_t threads = 1;  ///< Of the block.
  [[nodiscard]] int64_t vectors_per_thread() const { return fast * slow / (width * threads); }
  friend bool operator==(const TileWalk&, const TileWalk&) = default;
};

/// A tensor that passes through shared memory: one element for every element of the tile, line by
/// line along `along`, `pitch` elements from one line to the next.
///
/// Each line begins one bank (4 bytes) further than the line before; with elements of 8 bytes two
/// banks. Each thread of a warp accesses one element at a time, whether its vector is along a line
/// or across the lines. With the lanes of walk_along() and of `walk`, a warp has no bank conflicts
/// if lines have 128 bytes and a tile has 32 of them. Elements of 8 bytes take two wavefronts, as
/// they do anywhere.
struct StagedTensor {
  ValueId value;
  bool is_output = false;
  size_t output = 0;  ///< Its number among the outputs.
  int64_t pitch = 1;  ///< In elements.
  int64_t bytes = 0;  ///< Shared memory of the tensor.
  TileWalk walk;      ///< Across the lines, between global and shared memory.
  friend bool operator==(const StagedTensor&, const StagedTensor&) = default;
};
/// Inputs in the order of the space, then outputs.
std::vector<StagedTensor> staged_tensors(const SegmentFacts& facts, TileAxes axes,
                                         const Schedule& schedule);

/// The walk in which elements are evaluated. `staged_bytes` is the size of the widest element that
/// passes through shared memory.
TileWalk walk_along(const Schedule& schedule, int64_t staged_bytes);

/// Blocks of the grid: tiles along, across, and one for each coordinate of the other dimensions.
struct TileGrid {
  int64_t along = 1;
  int64_t across = 1;
  int64_t others = 1;
  [[nodiscard]] int64_t blocks() const { return along * across * others; }
};
TileGrid tile_grid(const SegmentFacts& facts, TileAxes axes, const Schedule& schedule);

}  // namespace sinter
