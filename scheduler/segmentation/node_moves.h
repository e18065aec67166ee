#pragma once

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"

namespace sinter {

/// Moves nodes of a grouping from group to group, and merges what then merges, as long as that
/// saves predicted time: single nodes, or those with all of their group that they read from, or
/// that read from them. What merging alone does not find; takes time with the square of the nodes
/// and more.
Partition move_nodes(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                     Partition groups);

}  // namespace sinter
