#pragma once

#include <optional>

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// The tensor that takes most of a schedule's budgets: of the values that it keeps in registers or
/// shared memory the one of most bytes, else the largest that the segment reads or writes. Invalid
/// for a segment without tensors.
ValueId largest_tensor(const SegmentFacts& facts, const Schedule& schedule);

/// A refusal of a schedule's fields, which names that tensor where they ask for more threads,
/// blocks, rows or vectors than a block or the device has.
Rejection with_tensor(Rejection rejection, const SegmentFacts& facts, const Schedule& schedule);

/// fits(), as a refusal by the schedule's family that names that tensor.
std::optional<Rejection> over_budget(const SegmentFacts& facts, const Schedule& schedule,
                                     const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
