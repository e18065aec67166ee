#pragma once

#include <optional>

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// The tensor that takes most of a schedule's budgets. Among values kept in registers or shared
/// memory it is the one of most bytes; if there are none, it is the largest tensor that the segment
/// reads or writes. Invalid for a segment without tensors.
ValueId largest_tensor(const SegmentFacts& facts, const Schedule& schedule);

/// Adds largest_tensor() to a rejection of a schedule's fields that ask for more threads, blocks,
/// rows or vectors than a block or the device has.
Rejection with_tensor(Rejection rejection, const SegmentFacts& facts, const Schedule& schedule);

/// fits(), as a rejection by the schedule's family that names largest_tensor().
std::optional<Rejection> over_budget(const SegmentFacts& facts, const Schedule& schedule,
                                     const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
