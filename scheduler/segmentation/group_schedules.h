#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "scheduler/segment_scheduler.h"
#include "scheduler/segmentation/segmenter.h"

namespace sinter {

/// The kernels of groups with one graph, scheduled once.
struct ScheduledGroup {
  Fusion fusion;
  Result<ScheduledSegment> segment;
  std::optional<size_t> first_kernel{};  ///< In the plan, of the first group that runs it.

  /// Infinite where nothing runs it.
  [[nodiscard]] double predicted_us() const;
};

/// Schedules groups of a graph, equal ones once. All that it is made of outlives it; `graph` does
/// not change.
class GroupSchedules {
 public:
  GroupSchedules(const WorkGraph& graph, const DeviceLimits& limits, const PlanOptions& options)
      : graph_(graph), limits_(limits), options_(options) {}

  /// Of a group of nodes, ascending. The reference stays valid.
  ScheduledGroup& of(const std::vector<NodeId>& nodes, WorkGraph::LeafViews views);
  ScheduledGroup& of(const MergeTree& tree) { return of(tree.nodes, tree.verdict.views); }

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
  Outcome outcome_anew(const MergeTree& tree);
  double best_of_parts(const MergeTree& tree);
  double least_with(const MergeTree& part);

  const WorkGraph& graph_;
  const DeviceLimits& limits_;
  const PlanOptions& options_;
  std::map<std::vector<NodeId>, ScheduledGroup*> known_;
  std::unordered_multimap<uint64_t, std::unique_ptr<ScheduledGroup>>
      made_;  ///< By structural hash.
  /// By nodes, and those of the first part: a group may have been merged in several orders.
  std::map<std::pair<std::vector<NodeId>, std::vector<NodeId>>, Outcome> outcomes_;
};

}  // namespace sinter
