#include "scheduler/segmentation/detach_contractions.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

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

/// Splits one group after the other.
class Detacher {
 public:
  Detacher(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules, Partition groups)
      : graph_(graph),
        judge_(judge),
        schedules_(schedules),
        groups_(std::move(groups)),
        group_of_(graph.size()) {
    for (size_t group = 0; group < groups_.size(); ++group) number(group);
  }

  Partition run() {
    const size_t count = groups_.size();
    for (size_t group = 0; group < count; ++group) split(group);
    std::erase_if(groups_, [](const Group& group) { return group.empty(); });
    return std::move(groups_);
  }

 private:
  /// A group in two parts, and other groups that become one with the second.
  struct Split {
    Group before, after;
    std::vector<size_t> joined{};
    double saved_us = 0.0;
  };

  void number(size_t group) {
    for (const NodeId node : groups_[group]) group_of_[node] = group;
  }

  double cost_us(const Group& group) { return schedules_.predicted_us(group, judge_); }

  void split(size_t group) {
    const Group whole = groups_[group];
    if (whole.empty()) return;
    const auto contraction = contraction_of(graph_, whole);
    const Group last = last_of(graph_, whole);
    if (!contraction || std::ranges::find(last, *contraction) != last.end()) return;
    BoundaryCuts cuts = cuts_of_fewest_bytes(graph_, whole, std::span(&*contraction, 1), last);
    Group least = least_first(graph_, whole, *contraction);
    std::optional<Split> best;
    for (Group* before : {&least, &cuts.fewest_before, &cuts.fewest_behind}) {
      if (before->empty() || before->size() == whole.size()) continue;
      if (auto found = split_at(group, std::move(*before));
          found && (!best || found->saved_us > best->saved_us))
        best = std::move(found);
    }
    if (!best) return;
    const size_t second = best->joined.empty() ? groups_.size() : best->joined.front();
    if (best->joined.empty()) groups_.emplace_back();
    for (const size_t joined : best->joined) groups_[joined].clear();
    groups_[group] = std::move(best->before);
    groups_[second] = std::move(best->after);
    number(second);
  }

  /// The best way to split a group there; nothing if none saves time.
  std::optional<Split> split_at(size_t group, Group before) {
    Group after;
    std::ranges::set_difference(groups_[group], before, std::back_inserter(after));
    const double whole_us = cost_us(groups_[group]);
    const double before_us = cost_us(before);
    if (before_us >= whole_us) return std::nullopt;
    Split best{.before = std::move(before), .after = after};
    best.saved_us = whole_us - before_us - cost_us(after);
    const auto join = [&](std::vector<size_t> others) {
      Group merged = after;
      double others_us = 0.0;
      for (const size_t other : others) {
        others_us += cost_us(groups_[other]);
        merged.insert(merged.end(), groups_[other].begin(), groups_[other].end());
      }
      std::ranges::sort(merged);
      if (!judge_.may_fit(merged)) return;
      const double saved_us = whole_us + others_us - before_us - cost_us(merged);
      if (saved_us <= best.saved_us) return;
      best.after = std::move(merged);
      best.joined = std::move(others);
      best.saved_us = saved_us;
    };
    std::vector<size_t> readers;
    for (const size_t reader : readers_of(after)) {
      if (!has_between(after, reader)) readers.push_back(reader);
    }
    for (const size_t reader : readers) join({reader});
    // What else the second part reads may be computed there, too.
    for (const size_t feeder : feeders_of(after)) {
      if (leads_to(groups_[feeder], best.before) || has_between(groups_[feeder], group)) continue;
      join({feeder});
      for (const size_t reader : readers) {
        if (reader != feeder && !has_between(groups_[feeder], reader, group))
          join({feeder, reader});
      }
    }
    if (best.saved_us <= 0.0) return std::nullopt;
    return best;
  }

  /// True if a node of `to` reads from one of `from`.
  [[nodiscard]] bool leads_to(const Group& from, const Group& to) const {
    return std::ranges::any_of(from, [&](NodeId node) {
      return std::ranges::any_of(graph_.nodes()[node].consumers, [&](NodeId consumer) {
        return std::ranges::binary_search(to, consumer);
      });
    });
  }

  /// Other groups with kernels that nodes of a group read from, ascending.
  [[nodiscard]] std::set<size_t> feeders_of(const Group& nodes) const {
    std::set<size_t> out;
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (groups_[group].empty() || group == group_of_[nodes.front()] ||
          graph_.nodes()[groups_[group].front()].is_external)
        continue;
      if (leads_to(groups_[group], nodes)) out.insert(group);
    }
    return out;
  }

  /// Other groups with kernels that read from nodes of a group, ascending.
  [[nodiscard]] std::set<size_t> readers_of(const Group& nodes) const {
    std::set<size_t> out;
    for (const NodeId node : nodes) {
      for (const NodeId consumer : graph_.nodes()[node].consumers) {
        const size_t reader = group_of_[consumer];
        if (reader != group_of_[node] && !graph_.nodes()[consumer].is_external) out.insert(reader);
      }
    }
    return out;
  }

  /// True if a third group reads from the nodes and leads to the reader, over others or not: the
  /// nodes and the reader then cannot be one group. Paths over `ignored` do not count.
  [[nodiscard]] bool has_between(const Group& nodes, size_t reader,
                                 std::optional<size_t> ignored = {}) const {
    const size_t own = group_of_[nodes.front()];
    std::set<size_t> seen = {own};
    if (ignored) seen.insert(*ignored);
    std::vector<size_t> open;
    const auto visit = [&](std::span<const NodeId> from, bool may_lead) {
      for (const NodeId node : from) {
        for (const NodeId consumer : graph_.nodes()[node].consumers) {
          const size_t next = group_of_[consumer];
          if (next == reader && may_lead) return true;
          if (next != reader && seen.insert(next).second) open.push_back(next);
        }
      }
      return false;
    };
    visit(nodes, false);
    while (!open.empty()) {
      const size_t group = open.back();
      open.pop_back();
      if (visit(groups_[group], true)) return true;
    }
    return false;
  }

  const WorkGraph& graph_;
  GroupJudge& judge_;
  GroupSchedules& schedules_;
  Partition groups_;
  std::vector<size_t> group_of_;  ///< By node.
};

}  // namespace

Partition detach_contractions(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                              Partition groups) {
  return Detacher(graph, judge, schedules, std::move(groups)).run();
}

}  // namespace sinter
