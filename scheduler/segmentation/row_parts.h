#pragma once

#include <optional>
#include <vector>

#include "scheduler/analysis/subgraphs.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// A segment that reduces few long rows, as two. The first takes every row in `parts` of equal
/// length and leaves one partial result of each: a matrix of as many rows as fill the device. The
/// second combines the partial results of a row, in their order whatever blocks took them, and
/// computes what follows.
struct RowParts {
  Subgraph parts;
  Subgraph finish;
  /// What passes from one to the other, [kept axes, parts], or [parts, kept axes] of rows: values
  /// of the segment's graph that stand for their partial results, and bytes. The extremes that
  /// parts of an argmax have go by the name of what is searched.
  struct Passed {
    ValueId value;
    int64_t bytes = 0;
  };
  std::vector<Passed> passed;
};

/// A segment that reduces over its rows alone splits likewise, where blocks cannot leave partial
/// results of it (check_outer_reductions): columns of several strides, and tuples.
///
/// Nothing where the segment reduces along its columns and over its rows; where elements of a row
/// wait for its reductions, are stored or gathered; or where the reduced axes do not split into so
/// many parts.
std::optional<RowParts> rows_in_parts(const SegmentFacts& facts, int64_t parts);

/// Numbers of parts worth trying, ascending: those into which the reduced axes split, nearest to
/// the ones that give an SM a few rows of a thousand elements and more. None where rows fill the
/// device, or are short.
std::vector<int64_t> part_counts(const SegmentFacts& facts, const DeviceLimits& limits);

/// Parts of a row's elements are multiples of this where they can be: vectors of any type divide
/// it.
inline constexpr int64_t kWholeVector = 16;

/// The fewest and the most parts that part_counts wants of an axis of `length` elements, behind
/// `before` and before `behind` elements of the other axes.
struct PartRange {
  int64_t fewest = 0;
  int64_t most = 0;
};
PartRange wanted_parts(int64_t before, int64_t length, int64_t behind, const DeviceLimits& limits);

}  // namespace sinter
