#pragma once

#include <span>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/segmentation/group_schedules.h"
#include "scheduler/segmentation/list_groups.h"
#include "scheduler/segmentation/segmenter.h"
#include "scheduler/segmentation/work_graph.h"

namespace sinter {

/// A group of nodes and the kernels that run it.
struct ChosenGroup {
  std::vector<NodeId> nodes;  ///< Ascending.
  WorkGraph::LeafViews views = WorkGraph::LeafViews::kOps;
  ScheduledGroup* scheduled = nullptr;  ///< Null: an external call.
};

/// Groups in the order they run, and the first kernel of each; for an external call, the kernel
/// after it.
struct PlacedGroups {
  Partition groups;
  std::vector<KernelId> first_segment;
};

/// True if no order runs lists as separate kernels. Some group overwrites a tensor that a list
/// reads. A list then reads a result of that group, or of one that depends on it, or overwrites a
/// tensor that such a group reads.
bool lists_wait(const Plan& plan, const WorkGraph& graph, std::span<const ChosenGroup> groups,
                const ListGroups& lists);

/// Appends the groups' kernels and calls to a plan, each after all that it reads from. Lists come
/// after all others except those that overwrite what the lists read. Adds placements and the
/// workspace, without offsets. Of groups whose operands are ready, the one that the walk from the
/// outputs finishes first comes first, so that its results are soon consumed. Equal groups run the
/// kernel of the first. Errors: those of a group without kernels.
Result<PlacedGroups> place_segments(Plan& plan, const WorkGraph& graph,
                                    std::span<const ChosenGroup> groups, ListGroups lists);

}  // namespace sinter
