#pragma once

#include <vector>

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"
#include "scheduler/segmentation/node_moves.h"
#include "scheduler/segmentation/place_segments.h"

namespace sinter {

/// Why neighbouring groups run in different kernels: one cut for every value and every node that
/// reads it in another group. A cut names the kernels that lead its groups. Values that `pins` cuts
/// at are pinned, and so are the other values that pass between the same two groups. If `tries`,
/// the merged kernel is scheduled to find out whether it would be slower; otherwise this stays open
/// (Cut::Rule::kNotFound).
std::vector<Cut> find_cuts(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                           const PlacedGroups& placed, const SegmentPins& pins, bool tries);

}  // namespace sinter
