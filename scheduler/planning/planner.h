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
/// InternalError (a defect). For pinned cuts and joins: InvalidArgument (names, contradictions) and
/// Unsupported (no kernel runs the joined ops). If another plan is followed: those of
/// follow_plan(). Value ids of all but the first two are those of the simplified graph, which is in
/// the error's log.
Result<Plan> plan(const Fusion& fusion, const ExtentValues& extents, const DeviceLimits& limits,
                  const PlanOptions& options = {});

/// Given the schedule of a segment's leading kernel, plans the kernel that finishes its partial
/// results, and the workspace between them; removes those of an earlier choice. The leading kernel
/// keeps its id, as do those before it, and all ids in the plan stay right (plan_edit.h). A
/// schedule whose last block finishes has its own workspace and no second kernel. Does nothing for
/// a schedule without partial results or a segment without outer reductions. Errors: as plan().
Result<void> plan_finish(Plan& plan, KernelId segment, const Schedule& schedule,
                         const FamilySet& families);

/// Cutting is not tried if the kernels of the whole graph take at most this multiple of the time of
/// their bytes plus one more launch. No cut could save more than the rest, which is about the error
/// of the model, and trying takes as long as planning the whole.
inline constexpr double kWorthCutting = 1.25;

/// Fraction by which several kernels must be predicted faster than the one that runs the whole
/// graph. It exceeds the error of the predictions, of which several add up
/// (docs/experiments/constants_choices.md).
inline constexpr double kCutGain = 0.05;

/// Cutting is not tried for graphs without reductions that have more ops than this. Their parts
/// would only move more bytes, unless they walk tensors in different orders, and planning a
/// thousand ops takes seconds.
inline constexpr size_t kMostPointwiseOpsCut = 128;

}  // namespace sinter
