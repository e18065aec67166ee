#pragma once

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Gives segments the schedules that were measured for equal graphs. A schedule that is taken
/// becomes required, so that nothing replaces it at compilation. A choice that cannot be taken
/// leaves the segment as planned: its text no longer parses, it exceeds a budget here, or the
/// caller pinned something else. Each case is a Decision of the segment, or of the plan if the plan
/// has one segment. The cuts of the graph do not change. A choice for a graph that no segment has
/// is a Decision of the plan.
///
/// Errors: those of plan_finish().
Result<void> apply_tuned(Plan& plan, const TunedChoices& tuned, const PlanOptions& options);

}  // namespace sinter
