#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/segment_scheduler.h"
#include "scheduler/segmentation/segmenter.h"

namespace sinter {

/// Candidates that a kernel keeps beside the chosen one, for re-planning; a plan of thousands of
/// segments would otherwise be gigabytes, and most groups that are scheduled run nowhere.
inline constexpr size_t kKeptCandidates = 8;

/// The kernels of groups with one graph, scheduled once.
struct ScheduledGroup {
  std::vector<ValueId> outputs;  ///< Of that graph.
  Result<ScheduledSegment> segment;
  std::optional<size_t> first_kernel{};  ///< In the plan, of the first group that runs it.

  /// Infinite where nothing runs it.
  [[nodiscard]] double predicted_us() const;
};

/// Schedules groups of a graph, equal ones once, and predicts what they take. All that it is made
/// of outlives it; `graph` does not change.
class GroupSchedules {
 public:
  GroupSchedules(const WorkGraph& graph, const DeviceLimits& limits, const PlanOptions& options)
      : graph_(graph), limits_(limits), options_(options) {}

  /// Of a group of nodes, ascending. The reference stays valid.
  ScheduledGroup& of(const std::vector<NodeId>& nodes, WorkGraph::LeafViews views);
  /// Of a group with this verdict, or of one that differs in the values of constants alone: what
  /// kernels take does not depend on these.
  ScheduledGroup& like(const std::vector<NodeId>& nodes, const GroupVerdict& verdict);
  ScheduledGroup& like(const MergeTree& tree) { return like(tree.nodes, *tree.verdict); }

  /// Graphs that were scheduled.
  [[nodiscard]] size_t size() const { return made_.size(); }

  /// What a tree takes as one group or, if that is less, in parts.
  double best_us(const MergeTree& tree) { return outcome_of(tree).best_us; }
  /// True if its parts take less. They are scheduled only where they could. Of a tree in which
  /// instructions take longer than memory, the whole is scheduled only where no part tells.
  bool is_slower_than_parts(const MergeTree& tree) { return outcome_of(tree).is_slower; }

 private:
  struct Outcome {
    bool is_slower = false;  ///< Than its parts.
    double best_us = 0.0;
  };
  const Outcome& outcome_of(const MergeTree& tree);
  /// An outcome, or the part whose outcome has to be known first.
  struct Attempt {
    Outcome outcome{};
    const MergeTree* needs = nullptr;
  };
  Attempt try_outcome(const MergeTree& tree);
  [[nodiscard]] const Outcome* known_outcome(const MergeTree& tree) const;
  /// What tells trees apart: their nodes and those of their first part, since a group may have been
  /// merged in several orders.
  static std::vector<NodeId> key_of(const MergeTree& tree);
  double least_with(const MergeTree& part);

  /// A group that was scheduled: its graph is made again where it has to be looked at.
  struct Made {
    std::vector<NodeId> nodes;
    WorkGraph::LeafViews views;
    std::unique_ptr<ScheduledGroup> scheduled;
  };

  const WorkGraph& graph_;
  const DeviceLimits& limits_;
  const PlanOptions& options_;
  ByNodes<ScheduledGroup*> known_;
  std::unordered_multimap<uint64_t, Made> made_;         ///< By structural hash.
  std::unordered_map<uint64_t, ScheduledGroup*> alike_;  ///< By GroupVerdict::structure.
  ByNodes<Outcome> outcomes_;                            ///< By key_of().
};

}  // namespace sinter
