#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// Nodes up to which all groupings are tried: 2^16 groups, of which few are legal.
inline constexpr size_t kMostExhaustiveNodes = 16;

/// A grouping and what it costs.
struct OptimalGrouping {
  std::vector<std::vector<NodeId>> groups;  ///< In an order they can run in.
  double us = 0.0;
};

/// What a group takes in microseconds; nothing if no kernel runs it.
using GroupCost = std::function<std::optional<double>(std::span<const NodeId> group)>;

/// The cheapest of all groupings without cycles by `cost`. `least` is a bound from below that takes
/// less time to find: of groups that cannot be part of the cheapest grouping nothing else is asked.
/// Each function is asked at most once about a group. Nothing where some node is in no group that
/// can run. The graph has kMostExhaustiveNodes nodes at most.
std::optional<OptimalGrouping> group_exhaustively(const WorkGraph& graph, const GroupCost& least,
                                                  const GroupCost& cost);

}  // namespace sinter
