#pragma once

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"

namespace sinter {

/// Moves nodes of a grouping from group to group, then merges groups where possible, as long as
/// this reduces the predicted time. Moves single nodes, or a node with all nodes of its group that
/// it reads from, or with all that read from it. Finds groupings that merging alone does not find.
/// Takes at least quadratic time in the nodes.
Partition move_nodes(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                     Partition groups);

}  // namespace sinter
