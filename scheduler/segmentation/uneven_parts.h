#pragma once

#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/budgets/device_limits.h"

namespace sinter {

/// A reduction of few elements each, over a long axis that none of the numbers of parts divides
/// which would fill the device (wanted_parts): one of a prime number of elements, say.
struct UnevenAxis {
  OpId reduction{};
  int axis = 0;
  int64_t length = 0;
  int64_t parts = 0;        ///< Of part_length elements each; one more has the rest.
  int64_t part_length = 0;  ///< A multiple of kWholeVector.
  friend bool operator==(const UnevenAxis&, const UnevenAxis&) = default;
};

/// Those among the reductions over a single axis.
std::vector<UnevenAxis> find_uneven_axes(const Fusion& fusion, const DeviceLimits& limits);

/// The graph with these reductions in parts: slices of the axis are reduced, and a concatenate of
/// the partial results. Inputs and outputs stay as they are. All extents are constant.
Fusion with_axes_in_parts(const Fusion& fusion, const std::vector<UnevenAxis>& axes);

}  // namespace sinter
