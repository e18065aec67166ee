#include "scheduler/segmentation/segmenter.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "scheduler/segmentation/reachability.h"

namespace sinter {
namespace {

/// Readers of one tensor that are considered on either side of a group: a tensor that every node
/// reads would otherwise pair all groups with all others.
constexpr size_t kSiblingsNear = 4;

/// Most merges of a group in a round; each merged group has at most a third of the result. With one
/// merge per round groups only double: of equal parts they then leave half of a kernel's limit
/// unused (docs/experiments/constants_choices.md).
constexpr uint8_t kMostMergesInRound = 2;

template <class T>
void sort_unique(std::vector<T>& values) {
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
}

std::vector<std::vector<NodeId>> consumers_of(const WorkGraph& graph) {
  std::vector<std::vector<NodeId>> out;
  for (const WorkNode& node : graph.nodes()) out.push_back(node.consumers);
  return out;
}

class Greedy {
 public:
  Greedy(const WorkGraph& graph, GroupJudge& judge, MergeOrder order)
      : graph_(graph),
        judge_(judge),
        order_(order),
        reach_(consumers_of(graph)),
        group_of_(graph.size()),
        is_settled_(graph.size()) {}

  Grouping run(std::vector<MergeTree> groups) {
    trees_.resize(graph_.size());
    std::iota(group_of_.begin(), group_of_.end(), NodeId{0});
    // Pinned groups are complete from the beginning.
    const bool is_anew = std::ranges::all_of(
        groups, [](const MergeTree& tree) { return tree.parts.empty() && tree.nodes.size() > 1; });
    for (MergeTree& tree : groups) {
      const NodeId kept = tree.nodes.front();
      for (const NodeId node : std::span(tree.nodes).subspan(1)) {
        reach_.merge(kept, node);
        group_of_[node] = kept;
      }
      trees_[kept] = std::move(tree);
    }
    for (NodeId node = 0; node < graph_.size(); ++node) {
      if (group_of_[node] != node || !trees_[node].nodes.empty()) continue;
      trees_[node].nodes = {node};
      if (!is_external(node)) trees_[node].verdict = &judge_.judge(trees_[node].nodes);
    }
    merge_first(is_anew ? order_.first : MergeOrder::First::kNothing);
    merge_all();
    if (!refused_.empty()) {
      // A merge that was refused for a part may be legal for the complete group.
      refused_.clear();
      merge_all();
    }
    Grouping out{.groups = {}, .judged = judge_.counts()};
    for (NodeId node = 0; node < graph_.size(); ++node) {
      if (group_of_[node] == node) out.groups.push_back(std::move(trees_[node]));
    }
    return out;
  }

 private:
  void merge_all() {
    while (merge_neighbours(Neighbours::kAll) || merge_alike(Alike::kAll)) {
    }
  }

  void merge_first(MergeOrder::First first) {
    switch (first) {
      case MergeOrder::First::kReductions:
        merge_alike(Alike::kReductions);
        [[fallthrough]];
      case MergeOrder::First::kProducers:
        merge_neighbours(Neighbours::kProducers);
        break;
      case MergeOrder::First::kReady:
      case MergeOrder::First::kLargeReady:
        merge_ready();
        break;
      case MergeOrder::First::kNothing:
        break;
    }
  }

  [[nodiscard]] bool is_external(NodeId node) const { return graph_.nodes()[node].is_external; }

  struct Offer {
    NodeId other = 0;
    MergeKind kind = MergeKind::kProducer;
    int64_t bytes = 0;  ///< Bytes that the merged kernel saves.
  };

  enum class Neighbours : uint8_t { kProducers, kAll };
  enum class Alike : uint8_t { kReductions, kAll };

  /// Merges every group with the neighbours that save most, until no merge saves anything.
  bool merge_neighbours(Neighbours which) {
    if (order_.in_rounds) {
      bool merged = false;
      is_settled_.assign(graph_.size(), 0);
      while (merge_round(which)) merged = true;
      return merged;
    }
    bool merged = false;
    const auto count = static_cast<NodeId>(graph_.size());
    for (NodeId i = 0; i < count; ++i) {
      const NodeId node = order_.backwards ? count - 1 - i : i;
      if (group_of_[node] != node) continue;
      for (NodeId group = node; take_best(group, neighbours(group, which));
           group = group_of_[group])
        merged = true;
    }
    return merged;
  }

  /// Merges every group at most kMostMergesInRound times with the neighbour that saves most. A
  /// group waits if all neighbours that save as much have merged that often already.
  bool merge_round(Neighbours which) {
    bool merged = false;
    merges_.assign(graph_.size(), 0);
    const auto count = static_cast<NodeId>(graph_.size());
    for (NodeId i = 0; i < count; ++i) {
      const NodeId group = order_.backwards ? count - 1 - i : i;
      if (group_of_[group] != group || has_merged(group) || is_settled_[group] != 0) continue;
      waits_ = false;
      if (!take_best(group, neighbours(group, which))) {
        is_settled_[group] = static_cast<uint8_t>(!waits_);
        continue;
      }
      merged = true;
    }
    merges_.clear();
    return merged;
  }

  /// True if a group waits for the next round.
  [[nodiscard]] bool has_merged(NodeId group) const {
    return !merges_.empty() && merges_[group] >= kMostMergesInRound;
  }

  /// Grows groups one after the other, in the order they run or against it, each to its maximum.
  void merge_ready() {
    const auto count = static_cast<NodeId>(graph_.size());
    std::vector<NodeId> order(count);
    std::iota(order.begin(), order.end(), NodeId{0});
    if (order_.backwards) std::ranges::reverse(order);
    if (order_.first == MergeOrder::First::kLargeReady)
      std::ranges::stable_sort(order, std::ranges::greater{},
                               [&](NodeId node) { return elements_of(group_of_[node]); });
    std::vector<uint8_t> done(count);
    const auto is_ready = [&](NodeId node) {
      const WorkNode& work = graph_.nodes()[node];
      return done[node] == 0 &&
             std::ranges::all_of(order_.backwards ? work.consumers : work.producers,
                                 [&](NodeId other) { return done[other] != 0; });
    };
    for (auto first = std::ranges::find_if(order, is_ready); first != order.end();
         first = std::ranges::find_if(order, is_ready)) {
      done[*first] = 1;
      // A node that joins makes others ready.
      for (bool joined = true; joined;) {
        joined = false;
        for (const NodeId node : order) {
          if (!is_ready(node)) continue;
          if (!take_best(group_of_[*first], {{.other = node, .kind = MergeKind::kHorizontal}}))
            continue;
          done[node] = 1;
          joined = true;
        }
      }
    }
  }

  /// Merges groups that share no tensor with others of the same number of elements.
  bool merge_alike(Alike which) {
    std::map<std::pair<bool, int64_t>, std::vector<NodeId>> alike;
    for (NodeId node = 0; node < graph_.size(); ++node) {
      if (group_of_[node] != node || is_external(node)) continue;
      if (which == Alike::kReductions && !trees_[node].verdict->reduces) continue;
      alike[{trees_[node].verdict->reduces, elements_of(node)}].push_back(node);
    }
    bool merged = false;
    for (const auto& [kind, groups] : alike) {
      for (size_t i = 0; i < groups.size(); ++i) {
        for (size_t j = i + 1; j < std::min(groups.size(), i + 1 + kSiblingsNear); ++j) {
          if (group_of_[groups[i]] != groups[i] || group_of_[groups[j]] != groups[j]) continue;
          merged |= take_best(groups[i], {{.other = groups[j], .kind = MergeKind::kHorizontal}});
        }
      }
    }
    return merged;
  }

  /// Number of elements of the first reduction of a group, or else of its last result.
  [[nodiscard]] int64_t elements_of(NodeId group) const {
    const Fusion& fusion = graph_.fusion();
    const auto elements = [&](ValueId value) { return element_count(fusion.values[value].shape); };
    for (const NodeId node : trees_[group].nodes) {
      const Op& op = fusion.ops[graph_.nodes()[node].op];
      if (is_reduction(op.kind)) return elements(op.operands.front());
    }
    return elements(fusion.ops[graph_.nodes()[trees_[group].nodes.back()].op].results.front());
  }

  /// The saving of a merge with each neighbour of a group, largest first.
  std::vector<Offer> neighbours(NodeId group, Neighbours which) const {
    std::vector<Offer> offers;
    const auto offer = [&](NodeId other, MergeKind kind, int64_t bytes) {
      if (other != group) offers.push_back({.other = other, .kind = kind, .bytes = bytes});
    };
    std::vector<ValueId> read;
    std::vector<NodeId> readers;
    for (const NodeId node : trees_[group].nodes) {
      const WorkNode& work = graph_.nodes()[node];
      read.insert(read.end(), work.leaves.begin(), work.leaves.end());
      for (const ValueId result : graph_.fusion().ops[work.op].results) {
        readers.clear();
        for (const NodeId reader : graph_.readers(result)) {
          if (group_of_[reader] != group) readers.push_back(group_of_[reader]);
        }
        sort_unique(readers);
        // Merging the last reader saves the write too.
        const int64_t saved =
            graph_.bytes(result) * (readers.size() == 1 && !graph_.is_kept(result) ? 2 : 1);
        for (const NodeId other : readers) offer(other, MergeKind::kProducer, saved);
      }
    }
    sort_unique(read);
    for (const ValueId value : read) {
      const NodeId producer = graph_.maker_of(value);
      if (producer != WorkGraph::kNone) {
        if (group_of_[producer] == group) continue;
        const bool is_last = !graph_.is_kept(value) && is_only_reader(group, value);
        offer(group_of_[producer], MergeKind::kProducer, graph_.bytes(value) * (is_last ? 2 : 1));
      }
      if (which == Neighbours::kProducers) continue;
      for (const NodeId sibling : siblings(group, value))
        offer(sibling, MergeKind::kSiblings, graph_.bytes(value));
    }
    // One offer per group, as a producer if any of its offers is one.
    std::ranges::sort(offers, {}, &Offer::other);
    std::vector<Offer> out;
    for (const Offer& made : offers) {
      if (out.empty() || out.back().other != made.other) {
        out.push_back(made);
        continue;
      }
      out.back().bytes += made.bytes;
      if (made.kind == MergeKind::kProducer) out.back().kind = made.kind;
    }
    std::ranges::stable_sort(out, std::ranges::greater{}, &Offer::bytes);
    return out;
  }

  /// True if only this group and the one that makes a value read it.
  [[nodiscard]] bool is_only_reader(NodeId group, ValueId value) const {
    const NodeId maker = group_of_[graph_.maker_of(value)];
    return std::ranges::all_of(graph_.readers(value), [&](NodeId reader) {
      return group_of_[reader] == group || group_of_[reader] == maker;
    });
  }

  /// Other groups that read a value, the nearest in the order of nodes.
  [[nodiscard]] std::vector<NodeId> siblings(NodeId group, ValueId value) const {
    const std::vector<NodeId>& readers = graph_.readers(value);
    const auto here = std::ranges::lower_bound(readers, trees_[group].nodes.front());
    std::vector<NodeId> out;
    const auto add = [&](NodeId reader) {
      const NodeId other = group_of_[reader];
      if (other != group && std::ranges::find(out, other) == out.end()) out.push_back(other);
    };
    for (auto it = here; it != readers.end() && out.size() < kSiblingsNear; ++it) add(*it);
    const size_t after = out.size();
    for (auto it = here; it != readers.begin() && out.size() < after + kSiblingsNear;) add(*--it);
    return out;
  }

  /// Merges with the first of the offers that is legal and saves time.
  bool take_best(NodeId group, const std::vector<Offer>& offers) {
    if (is_external(group)) return false;
    std::optional<int64_t> awaited;  // Bytes of the offer whose group waits for the next round.
    for (const Offer& offer : offers) {
      if (offer.other == group || group_of_[offer.other] != offer.other) continue;
      if (is_external(offer.other) || was_refused(group, offer.other)) continue;
      if (awaited && offer.bytes < *awaited) break;
      if (has_merged(offer.other)) {
        awaited = offer.bytes;
        continue;
      }
      if (reach_.has_between(group, offer.other)) continue;
      std::vector<NodeId> nodes;
      std::ranges::merge(trees_[group].nodes, trees_[offer.other].nodes, std::back_inserter(nodes));
      const double apart_us =
          trees_[group].verdict->least_us + trees_[offer.other].verdict->least_us;
      const GroupVerdict& verdict = judge_.judge(nodes);
      if (!verdict.legal || verdict.least_us >= apart_us) {
        if (order_.in_rounds) refuse(group, offer.other);
        continue;
      }
      unite(group, offer, std::move(nodes), verdict);
      return true;
    }
    waits_ = waits_ || awaited;
    return false;
  }

  /// True if a merge of the two, or of smaller groups that they contain, was refused.
  [[nodiscard]] bool was_refused(NodeId group, NodeId other) const {
    const auto found = refused_.find(group);
    return found != refused_.end() && std::ranges::any_of(found->second, [&](NodeId node) {
             return group_of_[node] == other;
           });
  }
  void refuse(NodeId group, NodeId other) {
    refused_[group].push_back(other);
    refused_[other].push_back(group);
  }

  /// The merged group keeps the smaller number.
  void unite(NodeId group, const Offer& offer, std::vector<NodeId> nodes,
             const GroupVerdict& verdict) {
    const NodeId kept = std::min(group, offer.other);
    const NodeId gone = std::max(group, offer.other);
    reach_.merge(kept, gone);
    for (const NodeId node : trees_[gone].nodes) group_of_[node] = kept;
    MergeTree tree{.nodes = std::move(nodes), .verdict = &verdict, .kind = offer.kind};
    tree.parts.push_back(std::move(trees_[kept]));
    tree.parts.push_back(std::move(trees_[gone]));
    trees_[gone] = {};
    trees_[kept] = std::move(tree);
    if (order_.in_rounds) is_settled_[kept] = 0;
    if (!merges_.empty())
      merges_[kept] = static_cast<uint8_t>(1 + std::max(merges_[kept], merges_[gone]));
    if (auto refused = refused_.extract(gone)) {
      std::vector<NodeId>& all = refused_[kept];
      all.insert(all.end(), refused.mapped().begin(), refused.mapped().end());
    }
  }

  const WorkGraph& graph_;
  GroupJudge& judge_;
  MergeOrder order_;
  Reachability reach_;
  std::vector<NodeId> group_of_;  ///< By node: the number of its group.
  std::vector<MergeTree> trees_;  ///< By that number.
  // State of rounds, by group:
  std::vector<uint8_t> merges_;      ///< In this one; empty between rounds.
  std::vector<uint8_t> is_settled_;  ///< Found no legal merge, and has not merged since.
  bool waits_ = false;               ///< The current group waits for one that has merged already.
  std::unordered_map<NodeId, std::vector<NodeId>>
      refused_;  ///< By group: nodes of groups whose merge with it was refused.
};

}  // namespace

Grouping group_greedily(const WorkGraph& graph, GroupJudge& judge, MergeOrder order) {
  return Greedy(graph, judge, order).run({});
}

Grouping group_greedily(const WorkGraph& graph, GroupJudge& judge, MergeOrder order,
                        std::vector<MergeTree> groups) {
  return Greedy(graph, judge, order).run(std::move(groups));
}

}  // namespace sinter
