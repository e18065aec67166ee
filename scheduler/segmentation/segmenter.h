#pragma once

#include <vector>

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// Groups of nodes, each ascending.
using Partition = std::vector<std::vector<NodeId>>;

/// Why two groups may become one.
enum class MergeKind : uint8_t {
  kProducer,    ///< One reads a value that the other one writes.
  kSiblings,    ///< Both read the same tensor.
  kHorizontal,  ///< They share nothing but their shape: a launch is saved.
};

/// A group of nodes for one kernel to run, with the two groups that were merged into it. If the
/// merged kernel turns out to be slower than theirs, the plan falls back to them.
struct MergeTree {
  std::vector<NodeId> nodes;              ///< Ascending.
  const GroupVerdict* verdict = nullptr;  ///< The judge's; null for an external call.
  MergeKind kind = MergeKind::kProducer;
  std::vector<MergeTree> parts{};  ///< Two, or none for a single node.
};

/// Groups of a graph whose quotient graph has no cycles; in no particular order.
struct Grouping {
  std::vector<MergeTree> groups;
  GroupJudge::Counts judged;
};

/// In which order groups are visited, and which merges come first. No order is best for all graphs.
struct MergeOrder {
  enum class First : uint8_t {
    kProducers,   ///< Groups that read from another one.
    kReductions,  ///< Reductions of equally many elements, then as kProducers.
    kNothing,     ///< The merge that saves most.
    kReady,       ///< List scheduling: of the ready groups as many as one kernel takes.
    kLargeReady,  ///< The same, with groups of the most elements first.
  };
  bool backwards = false;
  First first = First::kProducers;
  /// Groups merge in rounds, each at most twice in a round. An op is then analysed twice for each
  /// time that its group grows threefold. A refused merge is offered again only when no other is
  /// left. If false, a group merges with all it can before the next group does, which takes
  /// quadratic time for a large group.
  bool in_rounds = false;
};

/// Merges groups as long as one kernel is legal and the lower bound of its time is less than for
/// two: producers with consumers, readers of the same tensor, and at last parts that share only
/// their shape. Of the merges near a group, the one with the largest saving comes first. Depends on
/// the graph's structure, not on the order of insertion. A node that cannot run even alone stays
/// alone.
Grouping group_greedily(const WorkGraph& graph, GroupJudge& judge, MergeOrder order = {});
/// Continues merging from existing groups; nodes in none of them are alone.
Grouping group_greedily(const WorkGraph& graph, GroupJudge& judge, MergeOrder order,
                        std::vector<MergeTree> groups);

}  // namespace sinter
