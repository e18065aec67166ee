#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
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

/// Kernels that finish partial results, by their graphs. Groups of a graph leave the same partial
/// results many times, for they share reductions.
class FinishKernels {
 public:
  /// A kernel without KernelPlan::in_plan, and how its schedule was chosen.
  struct Entry {
    KernelPlan kernel;
    bool starts_early = false;  ///< While the kernel before it still runs.
    Decision decision;
  };
  /// `most_candidates`: those that each kernel keeps.
  explicit FinishKernels(size_t most_candidates) : most_candidates_(most_candidates) {}

  /// Null if none was added. Names may differ.
  [[nodiscard]] const Entry* find(const Fusion& graph, bool starts_early) const;
  void add(const KernelPlan& kernel, bool starts_early, const Decision& decision);

 private:
  size_t most_candidates_;
  std::unordered_multimap<uint64_t, Entry> known_;  ///< By structural hash.
};

/// Chooses the kernels of a segment. `finishes`: those known, to which it adds. Errors: Unsupported
/// (no family takes it), ResourceExhausted (a pinned schedule that does not fit), InvalidArgument
/// (options).
Result<ScheduledSegment> schedule_segment(SegmentFacts facts, const DeviceLimits& limits,
                                          const PlanOptions& options,
                                          FinishKernels* finishes = nullptr);

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
                                  const DeviceLimits& limits, const FamilySet& families,
                                  FinishKernels* finishes = nullptr);

/// True for decisions made by finish_segment().
bool is_finish_decision(const Decision& decision);

}  // namespace sinter
