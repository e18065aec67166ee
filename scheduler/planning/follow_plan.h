#pragma once

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Plans a graph as `model` plans the same graph at other sizes: the same groups of ops, in the
/// same order, by the same schedules, even if others would be faster here. If only the outermost
/// axes of all tensors differ in size, the kernels differ only in numbers given at launch. On entry
/// `plan` has a graph, its binding, limits and placements of outputs in inputs; the function sets
/// the rest. After an error the plan must not be used.
///
/// Errors: InvalidArgument (pins, another device), Unsupported (the simplified graphs differ in
/// more than sizes, for example because an extent is 1 or 0; a group of the model is not legal
/// here), ResourceExhausted (a schedule of it is not legal here, or exceeds a budget).
Result<void> follow_plan(Plan& plan, const Plan& model, const PlanOptions& options);

}  // namespace sinter
