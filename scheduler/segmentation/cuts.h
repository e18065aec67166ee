#pragma once

#include <vector>

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"
#include "scheduler/segmentation/node_moves.h"

namespace sinter {

/// Why neighbours run in different kernels: one cut for every value and node that reads it in
/// another group. `groups` stand in the order they run; `segment_of` has the segment that leads
/// each; values `pins` cuts at are pinned, and so is what passes beside them. Whether one kernel
/// would be slower is found by scheduling it if `tries`, else left open.
std::vector<Cut> find_cuts(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                           const Partition& groups, const std::vector<size_t>& segment_of,
                           const SegmentPins& pins, bool tries);

}  // namespace sinter
