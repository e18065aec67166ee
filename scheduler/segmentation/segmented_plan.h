#pragma once

#include <optional>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/list_groups.h"

namespace sinter {

/// Cuts the plan's graph, in which concatenates can be written in place (joins.h), into segments
/// and schedules each, equal ones once; its lists of tensors run at the end. Fills segments,
/// workspace (without offsets), externals and cuts. Kernels that take no less than `bar_us`, which
/// is what the caller has already, are not placed: the plan is left as it is; where those of the
/// first order of merges do, no other order is tried. Errors: Unsupported, if an op cannot run even
/// alone, or no kernel runs what is pinned to one; InvalidArgument for pins (segment_pins.h).
Result<void> plan_segments(Plan& plan, const PlanOptions& options, ListGroups lists = {},
                           std::optional<double> bar_us = std::nullopt);

}  // namespace sinter
