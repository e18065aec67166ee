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

/// Groups in the order they run, and the first segment of each; of a call the segment behind it.
struct PlacedGroups {
  Partition groups;
  std::vector<size_t> first_segment;
};

/// True if no order runs lists as kernels of their own: they read what a group makes that
/// overwrites what they, or others of them, read.
bool lists_wait(const Plan& plan, const WorkGraph& graph, std::span<const ChosenGroup> groups,
                const ListGroups& lists);

/// Appends the groups' kernels and calls to a plan, each after all it reads from, and lists behind
/// all but what overwrites what they read; with them placements and the workspace, without offsets.
/// Of groups that may run, the one that the walk from the outputs finishes first comes first: what
/// it makes is soon used up. Equal groups run the kernel of the first. Errors: those of a group
/// without kernels.
Result<PlacedGroups> place_segments(Plan& plan, const WorkGraph& graph,
                                    std::span<const ChosenGroup> groups, ListGroups lists);

}  // namespace sinter
