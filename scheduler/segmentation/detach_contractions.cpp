#include "scheduler/segmentation/detach_contractions.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "scheduler/segmentation/boundaries.h"

namespace sinter {
namespace {

using Group = std::vector<NodeId>;

/// The contraction of a group; nothing if it has none or several.
std::optional<NodeId> contraction_of(const WorkGraph& graph, const Group& group) {
  std::optional<NodeId> out;
  for (const NodeId node : group) {
    if (!std::holds_alternative<ContractOp>(graph.fusion().ops[graph.nodes()[node].op].kind))
      continue;
    if (out) return std::nullopt;
    out = node;
  }
  return out;
}

/// Nodes that no other of the group needs.
Group last_of(const WorkGraph& graph, const Group& group) {
  Group out;
  std::ranges::copy_if(group, std::back_inserter(out), [&](NodeId node) {
    return std::ranges::none_of(graph.nodes()[node].consumers, [&](NodeId consumer) {
      return std::ranges::binary_search(group, consumer);
    });
  });
  return out;
}

/// The contraction and the casts of its result, ascending: the least that a kernel of its own has.
Group least_first(const WorkGraph& graph, const Group& group, NodeId contraction) {
  Group out = {contraction};
  while (true) {
    Group readers;
    std::ranges::copy_if(
        graph.nodes()[out.back()].consumers, std::back_inserter(readers),
        [&](NodeId consumer) { return std::ranges::binary_search(group, consumer); });
    const auto is_cast = [&](NodeId node) {
      return std::holds_alternative<CastOp>(graph.fusion().ops[graph.nodes()[node].op].kind);
    };
    if (readers.size() != 1 || !is_cast(readers.front())) return out;
    out.push_back(readers.front());
  }
}

double predicted_us(const Group& group, GroupJudge& judge, GroupSchedules& schedules) {
  const GroupVerdict& verdict = judge.judge(group);
  if (!verdict.legal) return std::numeric_limits<double>::infinity();
  return schedules.like(group, verdict, &judge).predicted_us();
}

}  // namespace

Partition detach_contractions(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                              Partition groups) {
  const size_t count = groups.size();
  for (size_t i = 0; i < count; ++i) {
    const Group whole = groups[i];
    const auto contraction = contraction_of(graph, whole);
    const Group last = last_of(graph, whole);
    if (!contraction || std::ranges::find(last, *contraction) != last.end()) continue;
    double best_us = predicted_us(whole, judge, schedules);
    BoundaryCuts cuts = cuts_of_fewest_bytes(graph, whole, std::span(&*contraction, 1), last);
    Group least = least_first(graph, whole, *contraction);
    for (Group* before : {&least, &cuts.fewest_before, &cuts.fewest_behind}) {
      if (before->empty() || before->size() == whole.size()) continue;
      Group after;
      std::ranges::set_difference(whole, *before, std::back_inserter(after));
      const double first_us = predicted_us(*before, judge, schedules);
      if (first_us >= best_us) continue;
      const double apart_us = first_us + predicted_us(after, judge, schedules);
      if (apart_us >= best_us) continue;
      best_us = apart_us;
      if (groups[i] == whole) groups.emplace_back();
      groups[i] = std::move(*before);
      groups.back() = std::move(after);
    }
  }
  return groups;
}

}  // namespace sinter
