#pragma once

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// Plans a fusion for a device. A pure function: equal arguments give equal plans, in every
/// process.
///
/// Errors: InvalidFusion (the verifier's findings), InvalidArgument (extents), Unsupported (no
/// family takes the graph; every rejection is listed), ResourceExhausted (a pinned schedule that
/// breaks a budget or rule; a deadline), Cancelled (scheduler/families/interruption.h),
/// InternalError (a defect); for pinned cuts and joins InvalidArgument (names, contradictions) and
/// Unsupported (no kernel runs what is joined); for a plan to follow those of follow_plan(). Value
/// ids of all but the first two are those of the simplified graph, which stands in the error's log.
Result<Plan> plan(const Fusion& fusion, const ExtentValues& extents, const DeviceLimits& limits,
                  const PlanOptions& options = {});

/// Plans, after the schedule of a segment, the segment that finishes its partial results, and the
/// workspace between them; drops those of an earlier choice. A schedule whose last block finishes
/// has a workspace of its own and no second segment. Nothing is left to do for a schedule without
/// partial results, nor for a segment without outer reductions. Errors: as plan().
Result<void> plan_finish(Plan& plan, size_t segment, const Schedule& schedule,
                         const FamilySet& families);

/// Where the kernels of a whole graph take no longer than this multiple of what its bytes take, and
/// the launch of another one, it is not tried whether cutting it would be faster: no cut could save
/// more than the rest, which is about what the model is off by, and trying takes as long as
/// planning the whole.
inline constexpr double kWorthCutting = 1.25;

/// By how much several kernels must be predicted faster than the one that takes the whole graph:
/// more than what predictions are off by, which are those of several. Distillation losses of 2048 x
/// 256000 in bf16 were predicted 4 % faster cut, and took 1,460 us instead of 1,356 (H200).
inline constexpr double kCutGain = 0.05;

/// Nor is it tried for graphs of more ops that reduce nothing: their parts would only move more,
/// unless they walk tensors in different orders, and a thousand ops take seconds.
inline constexpr size_t kMostPointwiseOpsCut = 128;

}  // namespace sinter
