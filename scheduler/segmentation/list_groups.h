#pragma once

#include <vector>

#include "scheduler/analysis/subgraphs.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/segment_scheduler.h"

namespace sinter {

/// A list of tensors that one kernel takes, as a part of a plan's graph.
struct ListGroup {
  Subgraph subgraph;
  ScheduledSegment segment;  ///< Its kernel; the first of several lists has the decision for all.
};

/// The lists of a graph, and the rest of the graph.
struct ListGroups {
  std::vector<ListGroup> groups;
  /// Values that the other kernels and calls have to make, ascending: outputs of the graph that are
  /// in no list, and those operands of lists that are not inputs.
  std::vector<ValueId> rest;
};

/// Takes the members of a specialised graph's lists (find_lists) out of it, if one kernel for all
/// of them is predicted to take less time than separate kernels for the members of each size. These
/// are as few as the kernel arguments allow, and save reads that they share with other ops of the
/// graph. A list that exceeds the arguments of a kernel is split evenly. Takes time linear in the
/// graph for any number of members. No groups: no time would be saved.
ListGroups choose_lists(const Fusion& fusion, const DeviceLimits& limits,
                        const PlanOptions& options);

}  // namespace sinter
