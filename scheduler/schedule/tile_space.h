#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

// Geometry of schedules whose blocks take two-dimensional tiles of a segment without reductions:
// shared by the transpose family, its estimates and its lowering.

/// The two dimensions of the space that tiles span. Elements are evaluated in the order of `along`,
/// so tensors that are fastest along it are read and stored at once; those that are fastest along
/// `across` pass through shared memory.
struct TileAxes {
  size_t along = 0;
  size_t across = 0;
  friend bool operator==(const TileAxes&, const TileAxes&) = default;
};

/// The dimension along which neighbouring elements of a tensor lie nearest; nothing if it has one
/// element in all.
std::optional<size_t> fastest_dimension(const IterationSpace& space, const TensorAccess& access);

/// The two dimensions along which most bytes are fastest, most of all along `along`; of equals the
/// later dimension, which the first output is fastest along. Nothing where all tensors are fastest
/// along one.
std::optional<TileAxes> tile_axes(const SegmentFacts& facts);

/// The same segment with one dimension as its columns and the others, in their order, as its rows.
/// The segment reduces nothing.
SegmentFacts walked_along(const SegmentFacts& facts, size_t dimension);

/// Elements of a block's tile. A schedule's threads_per_row vectors span it along `along`;
/// rows_per_block times unroll lines lie across. Which of a tile's vectors a thread has follows
/// from TileWalk.
struct TileShape {
  int64_t along = 1;
  int64_t across = 1;
  friend bool operator==(const TileShape&, const TileShape&) = default;
};
TileShape tile_shape(const Schedule& schedule);

/// How the threads of a block walk a tile in vectors of `width` elements that lie along its fast
/// side: `lanes` neighbouring threads have neighbouring vectors of a line, the next ones those of
/// the next line, and after the last line the next `lanes` vectors follow. All powers of two.
struct TileWalk {
  int64_t fast = 1;     ///< Elements of the tile along the vectors.
  int64_t slow = 1;     ///< Lines.
  int64_t width = 1;    ///< Elements of a vector.
  int64_t lanes = 1;    ///< A divisor of 32.
  int64_t threads = 1;  ///< Of the block.
  [[nodiscard]] int64_t vectors_per_thread() const { return fast * slow / (width * threads); }
  friend bool operator==(const TileWalk&, const TileWalk&) = default;
};

/// A tensor that passes through shared memory: an element for every one of the tile, line by line
/// along `along`, `pitch` elements from one line to the next.
///
/// Lines begin one bank (4 bytes) further than the one before, elements of 8 bytes two. Of a
/// vector along the line, each thread of a warp takes one element at a time, and so it does of a
/// vector across the lines. With the lanes of walk_along() and of `walk`, no two threads of a warp
/// find different words in one bank where lines have 128 bytes, and 32 lie in a tile; elements of 8
/// bytes take two turns, as they do anywhere.
struct StagedTensor {
  ValueId value;
  bool is_output = false;
  size_t output = 0;  ///< Its number among the outputs.
  int64_t pitch = 1;  ///< In elements.
  int64_t bytes = 0;  ///< Of shared memory.
  TileWalk walk;      ///< Across the lines, between global and shared memory.
  friend bool operator==(const StagedTensor&, const StagedTensor&) = default;
};
/// Inputs in the order of the space, then outputs.
std::vector<StagedTensor> staged_tensors(const SegmentFacts& facts, TileAxes axes,
                                         const Schedule& schedule);

/// The walk in which elements are evaluated. `staged_bytes` are those of the widest element that
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
