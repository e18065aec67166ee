#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// The kernels of one segment and what passes between them, with value ids of the segment's graph.
struct ScheduledSegment {
  std::vector<KernelPlan> kernels;  ///< One; or rows and columns; or one and what finishes it.
  std::vector<WorkspaceTensor> workspace;  ///< `writer` counts within `kernels`.
  std::vector<Decision> decisions;
  std::vector<Rejection> rejections;  ///< Of families that offered nothing.
  [[nodiscard]] double predicted_us() const;
};

/// Chooses the kernels of a segment. Errors: Unsupported (no family takes it), ResourceExhausted (a
/// pinned schedule that does not fit), InvalidArgument (options).
Result<ScheduledSegment> schedule_segment(SegmentFacts facts, const DeviceLimits& limits,
                                          const PlanOptions& options);

/// The kernels of a segment with the schedules of `model`, the kernels of a segment with the same
/// graph at other sizes: one, rows and columns, parts of rows, or one and what finishes it. Errors:
/// Unsupported (it does not divide like that here), ResourceExhausted (a schedule is not legal
/// here).
Result<ScheduledSegment> schedule_like(SegmentFacts facts, std::span<const KernelPlan> model,
                                       const DeviceLimits& limits, const FamilySet& families);

/// What ends a kernel that leaves partial results: where they lie, and the kernel that reads them.
struct FinishPlan {
  std::vector<WorkspaceTensor> workspace;  ///< `writer` is 0.
  std::vector<KernelPlan> kernels;         ///< One, or none if the last block finishes.
  std::vector<Decision> decisions;
};

/// Plans the finish of a segment run by `schedule`; empty if there is nothing to finish. Ids are
/// those of `facts`. Errors: as schedule_segment().
Result<FinishPlan> finish_segment(const SegmentFacts& facts, const Schedule& schedule,
                                  const DeviceLimits& limits, const FamilySet& families);

/// True for what finish_segment() decides.
bool is_finish_decision(const Decision& decision);

}  // namespace sinter
