#pragma once

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Gives segments the schedules that were measured for graphs like theirs; one that is taken is
/// required, so that nothing replaces it at compilation. A choice that cannot be taken, because its
/// text no longer parses, it fits no budget here, or the caller pinned something else, leaves the
/// segment as planned. Each case is a Decision of the segment, or of the plan if that has one
/// segment. How the graph is cut does not change; a choice for a graph that no segment has is a
/// Decision of the plan.
///
/// Errors: those of plan_finish().
Result<void> apply_tuned(Plan& plan, const TunedChoices& tuned, const PlanOptions& options);

}  // namespace sinter
