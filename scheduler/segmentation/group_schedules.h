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

/// Candidates that a kernel keeps in addition to the chosen one, for re-planning. Without this
/// limit a plan of thousands of segments would take gigabytes, and most groups that are scheduled
/// are not part of the final plan.
inline constexpr size_t kKeptCandidates = 8;

/// The kernels of groups with equal graphs, scheduled once.
struct ScheduledGroup {
  std::vector<ValueId> outputs;  ///< Of that graph.
  Result<ScheduledSegment> segment;
  std::optional<KernelId> first_kernel{};  ///< In the plan, of the first group that runs it.

  /// Infinite if no kernel runs it.
  [[nodiscard]] double predicted_us() const;
};

/// Schedules groups of a graph, equal ones once, and predicts their time. All constructor arguments
/// outlive it; `graph` does not change.
class GroupSchedules {
 public:
  GroupSchedules(const WorkGraph& graph, const DeviceLimits& limits, const PlanOptions& options)
      : graph_(graph), limits_(limits), options_(options) {}

  /// The kernels of a group of nodes, ascending. The reference stays valid. A group that `judge`
  /// has just analysed is not analysed again.
  ScheduledGroup& of(const std::vector<NodeId>& nodes, WorkGraph::LeafViews views,
                     GroupJudge* judge = nullptr);
  /// The kernels of a group with this verdict, or of one that differs in the values of constants
  /// alone: the time of kernels does not depend on these.
  ScheduledGroup& like(const std::vector<NodeId>& nodes, const GroupVerdict& verdict,
                       GroupJudge* judge = nullptr);
  ScheduledGroup& like(const MergeTree& tree) { return like(tree.nodes, *tree.verdict); }

  /// Predicted time of a group of nodes, ascending; infinite if no kernel runs it.
  double predicted_us(const std::vector<NodeId>& nodes, GroupJudge& judge);

  /// Number of graphs that were scheduled.
  [[nodiscard]] size_t size() const { return made_.size(); }

  /// Predicted time of a tree as one group or in parts, whichever is less.
  double best_us(const MergeTree& tree) { return outcome_of(tree).best_us; }
  /// True if the parts of a tree take less time than the whole. The parts are scheduled only if
  /// they could. If instructions of a tree take longer than its memory traffic, the whole is
  /// scheduled only if the parts do not decide it.
  bool is_slower_than_parts(const MergeTree& tree) { return outcome_of(tree).is_slower; }

 private:
  struct Outcome {
    bool is_slower = false;  ///< Slower than its parts.
    double best_us = 0.0;
  };
  const Outcome& outcome_of(const MergeTree& tree);
  /// An outcome, or the part whose outcome must be found first.
  struct Attempt {
    Outcome outcome{};
    const MergeTree* needs = nullptr;
  };
  Attempt try_outcome(const MergeTree& tree);
  [[nodiscard]] const Outcome* known_outcome(const MergeTree& tree) const;
  /// Key of a tree: its nodes and those of its first part, since a group may have been merged in
  /// several orders.
  static std::vector<NodeId> key_of(const MergeTree& tree);
  double least_with(const MergeTree& part);

  /// A group that was scheduled. Its graph is not stored; it is made again when it is compared.
  struct Made {
    std::vector<NodeId> nodes;
    WorkGraph::LeafViews views;
    std::unique_ptr<ScheduledGroup> scheduled;
  };

  const WorkGraph& graph_;
  const DeviceLimits& limits_;
  const PlanOptions& options_;
  FinishKernels finishes_{1 + kKeptCandidates};
  ByNodes<ScheduledGroup*> known_;
  std::unordered_multimap<uint64_t, Made> made_;         ///< By structural hash.
  std::unordered_map<uint64_t, ScheduledGroup*> alike_;  ///< By GroupVerdict::structure.
  ByNodes<Outcome> outcomes_;                            ///< By key_of().
};

}  // namespace sinter
