#pragma once

#include <optional>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/list_groups.h"

namespace sinter {

/// Cuts the plan's graph into segments and schedules each, equal ones once. Concatenates of the
/// graph can be written in place (joins.h). Its lists of tensors run at the end. Sets kernels,
/// workspace (without offsets), externals and cuts. `bar_us` is the predicted time that the caller
/// has already: if the kernels take no less, the plan is left unchanged; if those of the first
/// merge order take no less, no other order is tried. Errors: Unsupported, if an op cannot run even
/// alone, or no kernel runs the nodes pinned to one; InvalidArgument for pins (segment_pins.h).
Result<void> plan_segments(Plan& plan, const PlanOptions& options, ListGroups lists = {},
                           std::optional<double> bar_us = std::nullopt);

}  // namespace sinter
