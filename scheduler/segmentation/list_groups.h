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
  ScheduledSegment segment;  ///< Its kernel; the first one of several has the decision for all.
};

/// Lists of a graph, and what is left of it.
struct ListGroups {
  std::vector<ListGroup> groups;
  /// What the other kernels and calls have to make, ascending: outputs of the graph that are in no
  /// list, and what the lists read beside inputs.
  std::vector<ValueId> rest;
};

/// Takes the members of a specialised graph's lists (find_lists) out of it, where one kernel for
/// all of them is predicted to take less than kernels for those of each size, as few as arguments
/// allow, that spare reading what other ops of the graph read too. A list
/// that exceeds the arguments of a kernel is cut evenly. Takes time linear in the graph, however
/// many members there are. No groups: nothing to be saved.
ListGroups choose_lists(const Fusion& fusion, const DeviceLimits& limits,
                        const PlanOptions& options);

}  // namespace sinter
