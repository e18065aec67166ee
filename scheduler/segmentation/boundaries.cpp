#include "scheduler/segmentation/boundaries.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "fusion_ir/match.h"
#include "scheduler/analysis/min_cut.h"

namespace sinter {
namespace {

/// Limit of the sum of all finite capacities of a network, so that none counts as unlimited: bytes
/// of larger tensors are counted in coarser units.
constexpr int64_t kMostCapacity = FlowEdge::kUnlimited / 2;

/// Number of readers of a group up to which the boundaries to all of them are moved. If every group
/// read from hundreds of others, there would be one maximum flow per pair of groups, and most pairs
/// pass one tensor of many.
constexpr size_t kMostReaders = 16;

bool has(std::span<const NodeId> nodes, NodeId node) {
  return std::ranges::binary_search(nodes, node);
}

/// Additional bytes of a tensor that a node makes and a later group reads.
int64_t passed_bytes(const WorkGraph& graph, ValueId value, bool others_read) {
  return graph.bytes(value) * (others_read || graph.is_kept(value) ? 1 : 2);
}

/// The flow network over some nodes of a graph.
class CutNetwork {
 public:
  CutNetwork(const WorkGraph& graph, std::span<const NodeId> nodes)
      : graph_(graph), nodes_(nodes), places_(nodes.back() - nodes.front() + 1) {
    for (uint32_t i = 0; i < nodes_.size(); ++i) places_[nodes_[i] - nodes_.front()] = i + 1;
    for (const NodeId node : nodes_) add_producer(node);
    add_shared_leaves();
  }

  BoundaryCuts cut(std::span<const NodeId> first, std::span<const NodeId> last) {
    const uint32_t source = count_++;
    const uint32_t sink = count_++;
    for (const NodeId node : first) add(source, vertex(node), FlowEdge::kUnlimited);
    for (const NodeId node : last) add(vertex(node), sink, FlowEdge::kUnlimited);
    const int64_t unit = finite_ / kMostCapacity + 1;
    for (FlowEdge& edge : edges_) {
      if (edge.capacity != FlowEdge::kUnlimited) edge.capacity /= unit;
    }
    const MinimumCuts cuts = minimum_cuts(count_, edges_, source, sink);
    BoundaryCuts out;
    for (const NodeId node : nodes_) {
      if (cuts.nearest_source[vertex(node)]) out.fewest_before.push_back(node);
      if (cuts.nearest_sink[vertex(node)]) out.fewest_behind.push_back(node);
    }
    return out;
  }

 private:
  [[nodiscard]] bool contains(NodeId node) const {
    return nodes_.front() <= node && node <= nodes_.back() && places_[node - nodes_.front()] != 0;
  }
  [[nodiscard]] uint32_t vertex(NodeId node) const { return places_[node - nodes_.front()] - 1; }
  void add(uint32_t from, uint32_t to, int64_t capacity) {
    edges_.push_back({.from = from, .to = to, .capacity = capacity});
  }
  void add_bytes(uint32_t from, uint32_t to, int64_t bytes) {
    finite_ += bytes;
    add(from, to, bytes);
  }

  /// Adds a vertex that lies behind the cut if one of the readers does; it then costs the given
  /// bytes.
  void add_producer(NodeId node) {
    for (const NodeId producer : graph_.nodes()[node].producers) {
      if (contains(producer)) add(vertex(node), vertex(producer), FlowEdge::kUnlimited);
    }
    for (const ValueId result : graph_.fusion().ops[graph_.nodes()[node].op].results) {
      const std::vector<NodeId>& readers = graph_.readers(result);
      const auto inside = static_cast<size_t>(
          std::ranges::count_if(readers, [&](NodeId reader) { return contains(reader); }));
      if (inside == 0) continue;
      const uint32_t read = count_++;
      add_bytes(vertex(node), read, passed_bytes(graph_, result, inside < readers.size()));
      for (const NodeId reader : readers) {
        if (contains(reader)) add(read, vertex(reader), FlowEdge::kUnlimited);
      }
    }
  }

  /// Tensors of other groups that several nodes read: one more read if readers are on both sides.
  void add_shared_leaves() {
    std::vector<std::pair<ValueId, NodeId>> reads;
    for (const NodeId node : nodes_) {
      for (const ValueId leaf : graph_.nodes()[node].leaves) {
        const NodeId owner = graph_.maker_of(leaf);
        if (owner == WorkGraph::kNone || !contains(owner)) reads.emplace_back(leaf, node);
      }
    }
    std::ranges::sort(reads);
    for (size_t begin = 0, end = 0; begin < reads.size(); begin = end) {
      const ValueId leaf = reads[begin].first;
      while (end < reads.size() && reads[end].first == leaf) ++end;
      if (end - begin < 2) continue;
      const uint32_t first_reads = count_++;
      const uint32_t last_reads = count_++;
      for (size_t i = begin; i < end; ++i) {
        add(vertex(reads[i].second), first_reads, FlowEdge::kUnlimited);
        add(last_reads, vertex(reads[i].second), FlowEdge::kUnlimited);
      }
      add_bytes(first_reads, last_reads, graph_.bytes(leaf));
    }
  }

  const WorkGraph& graph_;
  std::span<const NodeId> nodes_;
  std::vector<uint32_t>
      places_;  ///< In `nodes_`, from 1 on, by distance from the first; 0: in none.
  uint32_t count_ = static_cast<uint32_t>(nodes_.size());
  std::vector<FlowEdge> edges_;
  int64_t finite_ = 0;  ///< Bytes of all edges.
};

/// The groups while their boundaries move.
class Boundaries {
 public:
  Boundaries(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules, Partition groups)
      : graph_(graph),
        judge_(judge),
        schedules_(schedules),
        groups_(std::move(groups)),
        group_of_(graph.size()) {
    for (size_t group = 0; group < groups_.size(); ++group) {
      number(group);
      place_.push_back(group);
      at_place_.push_back(group);
    }
    SINTER_CHECK(order(0, groups_.size()), "groups wait for each other");
  }

  Partition run() {
    // A group that changed has new boundaries. Each change reduces the predicted time.
    std::set<size_t> changed;
    for (size_t group = 0; group < groups_.size(); ++group) changed.insert(group);
    while (!changed.empty()) {
      const size_t group = *changed.begin();
      changed.erase(changed.begin());
      for (const size_t later : readers_of(group)) {
        if (move_boundary(group, later)) changed.insert({group, later});
      }
    }
    return std::move(groups_);
  }

 private:
  void number(size_t group) {
    for (const NodeId node : groups_[group]) group_of_[node] = group;
  }

  [[nodiscard]] bool is_external(size_t group) const {
    return graph_.nodes()[groups_[group].front()].is_external;
  }

  /// Groups with kernels that read from a group, ascending; if there are many, those that read most
  /// tensors of it.
  [[nodiscard]] std::vector<size_t> readers_of(size_t group) const {
    std::map<size_t, size_t> tensors;  // By reader.
    if (is_external(group)) return {};
    for (const NodeId node : groups_[group]) {
      std::set<size_t> readers;
      for (const NodeId consumer : graph_.nodes()[node].consumers) {
        const size_t later = group_of_[consumer];
        if (later != group && !is_external(later)) readers.insert(later);
      }
      for (const size_t reader : readers) ++tensors[reader];
    }
    std::vector<std::pair<size_t, size_t>> most(tensors.begin(), tensors.end());
    if (most.size() > kMostReaders) {
      std::ranges::stable_sort(most, std::ranges::greater{}, &std::pair<size_t, size_t>::second);
      most.resize(kMostReaders);
      std::ranges::sort(most);
    }
    std::vector<size_t> out;
    for (const auto& [reader, count] : most) out.push_back(reader);
    return out;
  }

  /// Nodes of a group that stay: its reductions; without any, the nodes that need no other of the
  /// group, or that no other of the group needs.
  enum class End : uint8_t { kFirst, kLast };
  [[nodiscard]] std::vector<NodeId> anchors(size_t group, End end) const {
    const std::vector<NodeId>& nodes = groups_[group];
    std::vector<NodeId> out;
    std::ranges::copy_if(nodes, std::back_inserter(out), [&](NodeId node) {
      return is_reduction(graph_.fusion().ops[graph_.nodes()[node].op].kind);
    });
    if (!out.empty()) return out;
    std::ranges::copy_if(nodes, std::back_inserter(out), [&](NodeId node) {
      const WorkNode& work = graph_.nodes()[node];
      return std::ranges::none_of(end == End::kFirst ? work.producers : work.consumers,
                                  [&](NodeId other) { return has(nodes, other); });
    });
    return out;
  }

  /// Moves the boundary between two groups. True if fewer bytes cross the new one, and that saves
  /// time.
  bool move_boundary(size_t first, size_t second) {
    std::vector<NodeId> nodes;
    std::ranges::merge(groups_[first], groups_[second], std::back_inserter(nodes));
    const std::vector<NodeId> stays = anchors(first, End::kFirst);
    const std::vector<NodeId> follows = anchors(second, End::kLast);
    if (stays.size() + follows.size() == nodes.size()) return false;
    const int64_t bytes = bytes_between(graph_, groups_[first], groups_[second]);
    BoundaryCuts cuts = cuts_of_fewest_bytes(graph_, nodes, stays, follows);
    for (std::vector<NodeId>* cut : {&cuts.fewest_before, &cuts.fewest_behind}) {
      std::vector<NodeId>& before = *cut;
      if (before.empty() || before == groups_[first]) return false;
      std::vector<NodeId> after;
      std::ranges::set_difference(nodes, before, std::back_inserter(after));
      if (bytes_between(graph_, before, after) >= bytes) return false;
      if (replace(first, second, std::move(before), std::move(after))) return true;
    }
    return false;
  }

  /// Replaces two groups by these, if that saves time and they can still run.
  bool replace(size_t first, size_t second, std::vector<NodeId> before, std::vector<NodeId> after) {
    // Most illegal groups exceed a kernel's limits, which is found without making their graphs.
    if (!judge_.may_fit(before) || !judge_.may_fit(after)) return false;
    const double now_us = cost_us(groups_[first]) + cost_us(groups_[second]);
    // Most replacements are rejected by the lower bound of their time, without a schedule.
    const double least_after_us = least_us(after);
    if (least_us(before) + least_after_us >= now_us) return false;
    const double before_us = cost_us(before);
    if (before_us + least_after_us >= now_us || before_us + cost_us(after) >= now_us) return false;
    const auto exchange = [&] {
      std::swap(groups_[first], before);
      std::swap(groups_[second], after);
      number(first);
      number(second);
    };
    exchange();
    if (still_runs(first, second)) return true;
    exchange();
    return false;
  }

  double least_us(const std::vector<NodeId>& group) {
    const GroupVerdict& verdict = judge_.judge(group);
    return verdict.legal ? verdict.least_us : std::numeric_limits<double>::infinity();
  }

  double cost_us(const std::vector<NodeId>& group) {
    return schedules_.predicted_us(group, judge_);
  }

  /// True if groups can still run one after the other after nodes have moved between two of them.
  bool still_runs(size_t first, size_t second) {
    // A new cycle would lie within the range of places over which a new edge points backwards.
    // Other dependencies of the moved nodes still point forwards.
    size_t begin = groups_.size();
    size_t end = 0;
    const auto must_be_before = [&](size_t earlier, size_t later) {
      if (earlier == later || place_[earlier] < place_[later]) return;
      begin = std::min(begin, place_[later]);
      end = std::max(end, place_[earlier] + 1);
    };
    for (const NodeId node : groups_[first]) {
      for (const NodeId producer : graph_.nodes()[node].producers)
        must_be_before(group_of_[producer], first);
    }
    for (const NodeId node : groups_[second]) {
      for (const NodeId consumer : graph_.nodes()[node].consumers)
        must_be_before(second, group_of_[consumer]);
    }
    return begin >= end || order(begin, end);
  }

  /// Permutes the groups in a range of places so that they can run in this order. False, with the
  /// places unchanged, if there is no such order.
  bool order(size_t begin, size_t end) {
    const size_t count = end - begin;
    const auto place_in_range = [&](size_t group) { return place_[group] - begin; };
    std::vector<std::set<size_t>> readers(count);
    std::vector<size_t> waits(count);
    for (size_t at = 0; at < count; ++at) {
      const size_t group = at_place_[begin + at];
      for (const NodeId node : groups_[group]) {
        for (const NodeId consumer : graph_.nodes()[node].consumers) {
          const size_t later = group_of_[consumer];
          if (later == group || place_[later] < begin || place_[later] >= end) continue;
          if (readers[at].insert(later).second) ++waits[place_in_range(later)];
        }
      }
    }
    std::vector<size_t> ready;
    for (size_t at = 0; at < count; ++at) {
      if (waits[at] == 0) ready.push_back(at_place_[begin + at]);
    }
    std::vector<size_t> ordered;
    while (!ready.empty()) {
      const size_t group = ready.back();
      ready.pop_back();
      ordered.push_back(group);
      for (const size_t later : readers[place_in_range(group)]) {
        if (--waits[place_in_range(later)] == 0) ready.push_back(later);
      }
    }
    if (ordered.size() < count) return false;
    for (size_t at = 0; at < count; ++at) {
      at_place_[begin + at] = ordered[at];
      place_[ordered[at]] = begin + at;
    }
    return true;
  }

  const WorkGraph& graph_;
  GroupJudge& judge_;
  GroupSchedules& schedules_;
  Partition groups_;
  std::vector<size_t> group_of_;  ///< By node.
  std::vector<size_t> place_;     ///< Position of each group, in an order in which they can run.
  std::vector<size_t> at_place_;  ///< The group at each position.
};

}  // namespace

int64_t bytes_between(const WorkGraph& graph, std::span<const NodeId> first,
                      std::span<const NodeId> second) {
  int64_t bytes = 0;
  for (const NodeId node : first) {
    for (const ValueId result : graph.fusion().ops[graph.nodes()[node].op].results) {
      const auto& readers = graph.readers(result);
      const auto is_passed = [&](NodeId reader) { return has(second, reader); };
      if (std::ranges::none_of(readers, is_passed)) continue;
      const bool others_read = std::ranges::any_of(
          readers, [&](NodeId reader) { return !has(first, reader) && !has(second, reader); });
      bytes += passed_bytes(graph, result, others_read);
    }
  }
  const auto leaves_of = [&](std::span<const NodeId> group, const auto& counts) {
    std::vector<ValueId> leaves;
    for (const NodeId node : group)
      std::ranges::copy_if(graph.nodes()[node].leaves, std::back_inserter(leaves), counts);
    std::ranges::sort(leaves);
    const auto repeated = std::ranges::unique(leaves);
    leaves.erase(repeated.begin(), repeated.end());
    return leaves;
  };
  const auto is_made_elsewhere = [&](ValueId leaf) {
    const NodeId owner = graph.maker_of(leaf);
    return owner == WorkGraph::kNone || (!has(first, owner) && !has(second, owner));
  };
  std::vector<ValueId> read_again;
  std::ranges::set_intersection(leaves_of(first, is_made_elsewhere),
                                leaves_of(second, is_made_elsewhere),
                                std::back_inserter(read_again));
  for (const ValueId leaf : read_again) bytes += graph.bytes(leaf);
  return bytes;
}

BoundaryCuts cuts_of_fewest_bytes(const WorkGraph& graph, std::span<const NodeId> nodes,
                                  std::span<const NodeId> first, std::span<const NodeId> last) {
  BoundaryCuts out = CutNetwork(graph, nodes).cut(first, last);
  for (std::vector<NodeId>* before : {&out.fewest_before, &out.fewest_behind}) {
    const bool needs_last =
        std::ranges::any_of(last, [&](NodeId node) { return has(*before, node); }) ||
        std::ranges::any_of(*before, [&](NodeId node) {
          return std::ranges::any_of(graph.nodes()[node].producers, [&](NodeId producer) {
            return has(nodes, producer) && !has(*before, producer);
          });
        });
    if (needs_last) before->clear();
  }
  return out;
}

Partition move_boundaries(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                          Partition groups) {
  return Boundaries(graph, judge, schedules, std::move(groups)).run();
}

}  // namespace sinter
