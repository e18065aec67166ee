#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// What the caller pinned of a graph's segments, as nodes.
class SegmentPins {
 public:
  SegmentPins() = default;  ///< Nothing.

  /// Looks the pinned values up. Joined nodes come with all that lies between them; joins that
  /// share a node become one. What the graph binds together counts as joined, and so do the nodes
  /// of each of `ties`. `graph` outlives the pins.
  ///
  /// Errors (InvalidArgument): a name that no value has or several have; a value that no kernel
  /// makes, with what to name instead; a join with an external call or a pinned cut in it; joins
  /// that would wait for each other.
  static Result<SegmentPins> resolve(const WorkGraph& graph, const PlanOptions& options,
                                     const std::vector<std::vector<NodeId>>& ties = {});

  [[nodiscard]] bool empty() const { return cuts_.empty() && groups_.empty(); }
  /// Why no plan may have a group, ascending, that one kernel might run: it makes and reads what is
  /// to go through memory, or has a part of what belongs together.
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

/// How a plan obeys its pins, which resolve: one decision for each. `segment_of` has the segment
/// that leads each node's group.
std::vector<Decision> pin_decisions(const WorkGraph& graph, const PlanOptions& options,
                                    const std::vector<size_t>& segment_of);

}  // namespace sinter
