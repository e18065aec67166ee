#pragma once

#include <optional>
#include <vector>

#include "scheduler/analysis/subgraphs.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// A segment that reduces few long rows, split in two. The first splits every row in `parts` of
/// equal length and leaves one partial result of each part: its matrix has enough rows to fill the
/// device. The second combines the partial results of a row, in their order regardless of which
/// blocks made them, and computes the rest of the segment.
struct RowParts {
  Subgraph parts;
  Subgraph finish;
  /// Tensors that pass from the first to the second, [kept axes, parts], or [parts, kept axes] for
  /// reductions over rows: the values of the segment's graph whose partial results they are, and
  /// their bytes. For an argmax, the extremes of the parts are listed under the operand of the
  /// argmax.
  struct Passed {
    ValueId value;
    int64_t bytes = 0;
  };
  std::vector<Passed> passed;
};

/// Splits a segment in parts of rows. A segment that only reduces over its rows is split likewise,
/// if blocks cannot leave partial results of it (check_outer_reductions): columns of several
/// strides, and tuples.
///
/// Returns no value if the segment reduces along its columns and over its rows; if elements of a
/// row depend on its reductions, are stored or gathered; or if the reduced axes cannot be split in
/// that many parts. Behind a contraction, elements that depend on no reduction may be stored, and
/// each row may pick one.
std::optional<RowParts> rows_in_parts(const SegmentFacts& facts, int64_t parts);

/// Numbers of parts worth trying, ascending. Each splits the reduced axes evenly. They are the
/// nearest to numbers that give an SM a few rows of a thousand elements or more. None if the rows
/// fill the device, or are short. Of rows of a contraction that are longer than a tile, they are
/// those whose parts are as wide as tiles.
std::vector<int64_t> part_counts(const SegmentFacts& facts, const DeviceLimits& limits);

/// The same for rows of `columns` of a contraction: the widest parts that fit a tile of the most
/// columns, of half of them, and so on.
std::vector<int64_t> tile_parts(int64_t columns);

/// The number of elements of a part is a multiple of this if possible: vector widths of all types
/// divide it.
inline constexpr int64_t kWholeVector = 16;

/// The fewest and the most parts that part_counts tries for an axis of `length` elements. `before`
/// and `behind` are the numbers of elements of the axes in front of it and after it.
struct PartRange {
  int64_t fewest = 0;
  int64_t most = 0;
};
PartRange wanted_parts(int64_t before, int64_t length, int64_t behind, const DeviceLimits& limits);

}  // namespace sinter
