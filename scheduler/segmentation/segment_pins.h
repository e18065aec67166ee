#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// The caller's pins of a graph's segments, as nodes.
class SegmentPins {
 public:
  SegmentPins() = default;  ///< No pins.

  /// Looks up the pinned values. Joined nodes include all nodes on paths between them; joins that
  /// share a node become one. Nodes that the graph binds together (WorkGraph::bound) count as
  /// joined, and so do the nodes of each of `ties`. `graph` outlives the pins.
  ///
  /// Errors (InvalidArgument): a name that no value has or several have; a value that no kernel
  /// makes, with the value to name instead; a join that contains an external call or a pinned cut;
  /// joins that depend on each other in a cycle.
  static Result<SegmentPins> resolve(const WorkGraph& graph, const PlanOptions& options,
                                     const std::vector<std::vector<NodeId>>& ties = {});

  [[nodiscard]] bool empty() const { return cuts_.empty() && groups_.empty(); }
  /// Why the pins forbid a group, ascending: it makes and reads a value that must go through
  /// memory, or it has only a part of the nodes that belong together.
  [[nodiscard]] std::optional<Rejection> forbids(std::span<const NodeId> group) const;
  [[nodiscard]] bool is_cut(ValueId value) const { return cuts_.contains(value); }
  /// Nodes that belong together; each ascending.
  [[nodiscard]] const std::vector<std::vector<NodeId>>& groups() const { return groups_; }

 private:
  friend class PinResolver;
  const WorkGraph* graph_ = nullptr;
  std::set<ValueId> cuts_;
  std::vector<std::vector<NodeId>> groups_;
};

/// The rule of a rejection by SegmentPins::forbids for a pinned cut.
inline constexpr std::string_view kPinnedCutRule = "a value is pinned to go through memory";

/// "%v3 h"
std::string pinned_text(const Fusion& fusion, ValueId value);

/// How a plan satisfies its pins, which must resolve: one decision for each. `segment_of` has the
/// kernel that leads each node's group.
std::vector<Decision> pin_decisions(const WorkGraph& graph, const PlanOptions& options,
                                    const std::vector<KernelId>& segment_of);

}  // namespace sinter
