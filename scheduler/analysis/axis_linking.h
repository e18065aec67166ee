#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/axis_classes.h"
#include "scheduler/analysis/decision.h"

namespace sinter {

/// The axes of all values of a fusion in classes that one loop walks.
struct LinkedAxes {
  AxisClasses classes{};
  IdMap<ValueId, std::vector<AxisList>> axes;  ///< By value, one list for each of its axes.
  /// Each axis that a reduction removes, with the reduction's first result.
  std::vector<std::pair<ValueId, AxisList>> reduced{};
};

/// Links the axes of each op's operands and results, then those of parts of the graph that share
/// only their shape. The failing side names the first value that no loops can walk: operands or
/// reshapes whose sizes do not divide each other; an op that moves elements between tensors
/// (concatenate, pad) or runs outside of a kernel; a value that meets its own transpose.
tl::expected<LinkedAxes, Rejection> link_axes(const Fusion& fusion);

/// The rejection of a fusion that has no iteration space.
Rejection reject_space(std::string rule, ValueId at, std::string remedy);

}  // namespace sinter
