#pragma once

#include <string>
#include <string_view>

#include "fusion_ir/result.h"
#include "scheduler/families/family.h"
#include "scheduler/plan/plan.h"

namespace sinter {

/// Version of the text of plans. Texts of other versions are refused.
inline constexpr int64_t kPlanFileVersion = 1;

/// A plan as text that load_plan() reads back: the specialised graph, the device's limits, and each
/// kernel with its graph and its chosen schedule, in the order in which they run; calls,
/// placements, workspace and cuts. A JSON object, in which graphs are .fir lines and schedules
/// .sched lines, so that a person can read and compare it. Equal plans give equal texts.
///
/// A reduction that the caller has described (TupleReduceOp) has no name that a reader would know:
/// load_plan() refuses a plan with one.
///
/// Candidates that were not chosen, decisions and rejections are left out: the text says what runs,
/// and explain() of the plan says why.
std::string save_plan(const Plan& plan);

/// Reads a plan that save_plan() wrote. It runs the same kernels: each has the stored schedule as
/// its only candidate, estimated and predicted anew by its family. Nothing is chosen or measured.
///
/// Errors: InvalidArgument (text that is no such JSON object, with line and column where it is no
/// JSON; another version; a field that is missing or of another type; an id out of range; a plan
/// that breaks an invariant, with every violation), InvalidFusion (a graph that does not parse),
/// Unsupported (a schedule of a family that is not in the set, or that is not legal here).
Result<Plan> load_plan(std::string_view text, const FamilySet& families);

}  // namespace sinter
