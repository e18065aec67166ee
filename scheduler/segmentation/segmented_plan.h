#pragma once

#include "scheduler/plan.h"

namespace sinter {

/// Cuts the plan's graph into segments and schedules each, equal ones once. Fills segments,
/// workspace (without offsets), externals and cuts. Errors: Unsupported, if an op cannot run even
/// alone.
Result<void> plan_segments(Plan& plan, const PlanOptions& options);

}  // namespace sinter
