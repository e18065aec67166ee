#include "scheduler/segmentation/exhaustive.h"

#include <limits>

namespace sinter {
namespace {

using Mask = uint32_t;

std::vector<NodeId> nodes_of(Mask mask) {
  std::vector<NodeId> out;
  for (NodeId node = 0; mask >> node != 0; ++node) {
    if ((mask >> node & 1U) != 0) out.push_back(node);
  }
  return out;
}

}  // namespace

std::optional<OptimalGrouping> group_exhaustively(const WorkGraph& graph, const GroupCost& least,
                                                  const GroupCost& cost) {
  SINTER_CHECK_OP(graph.size(), <=, kMostExhaustiveNodes);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Mask all = (Mask{1} << graph.size()) - 1;
  // A set of nodes that have run is closed: with a node it has all producers. The difference of two
  // nested closed sets is a group, and a chain of closed sets is a grouping without cycles.
  std::vector<Mask> needs(graph.size());
  for (NodeId node = 0; node < graph.size(); ++node) {
    for (const NodeId producer : graph.nodes()[node].producers) needs[node] |= Mask{1} << producer;
  }
  std::vector<bool> is_closed(all + 1, true);
  for (Mask set = 0; set <= all; ++set) {
    for (const NodeId node : nodes_of(set)) {
      if ((needs[node] & ~set) != 0) is_closed[set] = false;
    }
  }
  constexpr double kNotAsked = -1.0;
  std::vector<double> least_of(all + 1, kNotAsked);
  std::vector<double> cost_of(all + 1, kNotAsked);
  const auto ask = [&](const GroupCost& about, std::vector<double>& known, Mask group) {
    if (known[group] == kNotAsked) known[group] = about(nodes_of(group)).value_or(kNever);
    return known[group];
  };
  std::vector<double> best(all + 1, kNever);
  std::vector<Mask> last(all + 1, 0);
  best[0] = 0.0;
  for (Mask done = 0; done < all; ++done) {
    if (!is_closed[done] || best[done] == kNever) continue;
    const Mask left = all & ~done;
    for (Mask group = left; group != 0; group = (group - 1) & left) {
      const Mask then = done | group;
      if (!is_closed[then] || best[done] + ask(least, least_of, group) >= best[then]) continue;
      const double us = best[done] + ask(cost, cost_of, group);
      if (us >= best[then]) continue;
      best[then] = us;
      last[then] = group;
    }
  }
  if (best[all] == kNever) return std::nullopt;
  OptimalGrouping out{.groups = {}, .us = best[all]};
  for (Mask done = all; done != 0; done &= ~last[done])
    out.groups.insert(out.groups.begin(), nodes_of(last[done]));
  return out;
}

}  // namespace sinter
