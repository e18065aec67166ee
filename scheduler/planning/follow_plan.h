#pragma once

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Plans a graph as `model` does the same graph at other sizes: the same groups of ops, in the same
/// order, by the same schedules, whatever else would be faster here. Their kernels differ in
/// numbers given at launch alone where the sizes are those of the outermost axes of all tensors.
/// `plan` has a graph, its binding, limits and placements of outputs in inputs, and gets the rest;
/// it is of no use after an error.
///
/// Errors: InvalidArgument (pins, another device), Unsupported (the simplified graphs differ in
/// more than sizes, as where an extent is 1 or 0; a group or schedule of the model is not legal
/// here), ResourceExhausted (a schedule exceeds a budget here).
Result<void> follow_plan(Plan& plan, const Plan& model, const PlanOptions& options);

}  // namespace sinter
