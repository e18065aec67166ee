#pragma once

#include <vector>

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// Groups of nodes, each ascending.
using Partition = std::vector<std::vector<NodeId>>;

/// Why two groups may become one.
enum class MergeKind : uint8_t {
  kProducer,    ///< One reads what the other one writes.
  kSiblings,    ///< Both read the same tensor.
  kHorizontal,  ///< They share nothing but their shape: a launch is saved.
};

/// A group of nodes that one kernel is to run, with the groups it was made of: what it falls back
/// to where the kernel turns out slower than theirs.
struct MergeTree {
  std::vector<NodeId> nodes;              ///< Ascending.
  const GroupVerdict* verdict = nullptr;  ///< The judge's; none of an external call.
  MergeKind kind = MergeKind::kProducer;
  std::vector<MergeTree> parts{};  ///< Two, or none for a single node.
};

/// Groups of a graph that leave it free of cycles; in no particular order.
struct Grouping {
  std::vector<MergeTree> groups;
  GroupJudge::Counts judged;
};

/// In which order groups are looked at, and what merges before the rest. No order is best for all
/// graphs.
struct MergeOrder {
  enum class First : uint8_t {
    kProducers,   ///< Groups that read what another one writes.
    kReductions,  ///< Reductions of as many elements, then the former.
    kNothing,     ///< Whatever saves most.
    kReady,       ///< Of what could run next all that one kernel takes, and so on.
    kLargeReady,  ///< The same, with what has most elements first.
  };
  bool backwards = false;
  First first = First::kProducers;
  /// Groups merge in rounds, each twice in a round at most, so that an op is analysed twice for
  /// each time that its group grows threefold; and what was refused is offered again only when
  /// nothing else is left. Else a group takes in all it can before the next one does, which for a
  /// large one takes quadratic time.
  bool in_rounds = false;
};

/// Merges ops as long as one kernel is legal and takes, at the least, less time than two: producers
/// with consumers, readers of the same tensor, and at last parts that share only their shape. The
/// largest saving near a group goes first. Depends on the graph's structure, not on the order of
/// insertion. A node that cannot run even alone stays alone.
Grouping group_greedily(const WorkGraph& graph, GroupJudge& judge, MergeOrder order = {});
/// Goes on merging from groups that are there; nodes in none of them are alone.
Grouping group_greedily(const WorkGraph& graph, GroupJudge& judge, MergeOrder order,
                        std::vector<MergeTree> groups);

}  // namespace sinter
