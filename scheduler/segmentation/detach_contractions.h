#pragma once

#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"

namespace sinter {

/// Splits groups with one contraction in two, where that is predicted to be faster: the contraction
/// with the casts of its result, or with all up to where the fewest bytes pass, and the rest. The
/// rest may join a group that reads from it, one that it reads from, or both. Merging does not find
/// this: it compares a group with the two parts that it was merged of, and a contraction is merged
/// early, because its result is the largest tensor.
Partition detach_contractions(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                              Partition groups);

}  // namespace sinter
