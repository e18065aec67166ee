#pragma once

#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// A reduction with few results over a long axis that cannot be split evenly in any number of parts
/// that would fill the device (wanted_parts), such as one of a prime number of elements. Or one of
/// the columns of a contraction, which no tiles have in equal parts (tile_parts), such as those of
/// a vocabulary of 50,257 words; a take along these columns is one too.
struct UnevenAxis {
  OpId reduction{};
  int axis = 0;
  int64_t length = 0;
  int64_t parts = 0;            ///< Of part_length elements each; one more part has the remainder.
  int64_t part_length = 0;      ///< A multiple of kWholeVector.
  bool of_contraction = false;  ///< Each part is a contraction of its own.
  friend bool operator==(const UnevenAxis&, const UnevenAxis&) = default;
};

/// The uneven axes of those reductions that reduce a single axis.
std::vector<UnevenAxis> find_uneven_axes(const Fusion& fusion, const DeviceLimits& limits);

/// The graph with these reductions in parts: it reduces slices of the axis, of the operands of a
/// contraction where the axis comes from one, and a concatenate of their partial results. Inputs
/// and outputs do not change. All extents are constant.
Fusion with_axes_in_parts(const Fusion& fusion, const std::vector<UnevenAxis>& axes);

}  // namespace sinter
