#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// The kernels of one segment and the tensors between them, with value ids of the segment's graph.
struct ScheduledSegment {
  IdVector<KernelId, KernelPlan> kernels;  ///< One; or rows and columns; or one and its finish.
  std::vector<WorkspaceTensor> workspace;  ///< `writer` is one of `kernels`.
  std::vector<Decision> decisions;
  std::vector<Rejection> rejections;  ///< Of families that offered nothing.
  [[nodiscard]] double predicted_us() const;
};

/// Chooses the kernels of a segment. Errors: Unsupported (no family takes it), ResourceExhausted (a
/// pinned schedule that does not fit), InvalidArgument (options).
Result<ScheduledSegment> schedule_segment(SegmentFacts facts, const DeviceLimits& limits,
                                          const PlanOptions& options);

/// The kernels of a segment with the schedules of `model`, which are the kernels of a segment with
/// the same graph at other sizes: one kernel; rows and columns; parts of rows; or one kernel and
/// the one that finishes it. Errors: Unsupported (the segment does not divide like that here),
/// ResourceExhausted (a schedule is not legal here).
Result<ScheduledSegment> schedule_like(SegmentFacts facts, std::span<const KernelPlan> model,
                                       const DeviceLimits& limits, const FamilySet& families);

/// How the partial results of a kernel are finished: where they lie, and the kernel that reads
/// them.
struct FinishPlan {
  std::vector<WorkspaceTensor> workspace;  ///< `writer` is kernel 0, whose results they are.
  std::optional<KernelPlan> kernel{};      ///< None if the last block finishes.
  std::vector<Decision> decisions;
};

/// Plans the finish of a segment run by `schedule`; empty if it leaves no partial results. Ids are
/// those of `facts`. Errors: as schedule_segment().
Result<FinishPlan> finish_segment(const SegmentFacts& facts, const Schedule& schedule,
                                  const DeviceLimits& limits, const FamilySet& families);

/// True for decisions made by finish_segment().
bool is_finish_decision(const Decision& decision);

}  // namespace sinter
