#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// Number of nodes up to which all groupings are tried: 2^16 groups, of which few are legal.
inline constexpr size_t kMostExhaustiveNodes = 16;

/// A grouping and its predicted time.
struct OptimalGrouping {
  std::vector<std::vector<NodeId>> groups;  ///< In an order in which they can run.
  double us = 0.0;
};

/// Predicted time of a group in microseconds; no value if no kernel runs it.
using GroupCost = std::function<std::optional<double>(std::span<const NodeId> group)>;

/// The grouping without cycles that has the least `cost`. `least` is a lower bound of the cost that
/// is faster to compute. `cost` is not called for groups that the bound excludes from the cheapest
/// grouping. Each function is called at most once per group. Returns no value if some node is in no
/// group that can run. The graph has at most kMostExhaustiveNodes nodes.
std::optional<OptimalGrouping> group_exhaustively(const WorkGraph& graph, const GroupCost& least,
                                                  const GroupCost& cost);

}  // namespace sinter
