#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

struct LoweredKernel;  // Defined one layer up, in codegen/lower/lowered_kernel.h; scheduling never
                       // looks inside.

/// One legal way to run a segment, with what it is expected to need and take.
struct ProposedSchedule {
  Schedule schedule;
  ResourceEstimate estimate;
  Prediction predicted;
  friend bool operator==(const ProposedSchedule&, const ProposedSchedule&) = default;
};

/// What a family answers: candidates, or reasons why it has none. Both may be present: reasons then
/// tell why parts of its space were left out.
struct Proposal {
  std::vector<ProposedSchedule> candidates;
  std::vector<Rejection> rejections;
};

/// A kind of schedule as a plug-in: a few functions under a name. A FamilySet is an ordinary value
/// that callers extend or reduce.
struct Family {
  std::string name;
  /// Offers schedules for a segment. Pure; never throws for a segment it does not like.
  std::function<Proposal(const SegmentFacts&, const DeviceLimits&)> propose;
  /// Estimates a schedule of this family, wherever it came from; the rejection says why it is
  /// illegal.
  std::function<tl::expected<ResourceEstimate, Rejection>(const SegmentFacts&, const Schedule&,
                                                          const DeviceLimits&)>
      estimate;
  /// Predicts the time of a schedule that has these resources: the estimated ones, or what the
  /// compiler reported.
  std::function<Prediction(const SegmentFacts&, const Schedule&, const ResourceEstimate&,
                           const DeviceLimits&)>
      predict;
  /// Lowers a legal schedule to kernel IR. Empty where only scheduling is wanted.
  std::function<LoweredKernel(const SegmentFacts&, const Schedule&)> lower;
  /// Its predictions follow the waits of every row and were fitted to timed schedules that differ
  /// in nothing else. If the best candidate is of such a family, others close to it are no equals.
  bool models_latency = false;
  /// All its schedules of outer reductions leave partial results, which it so cannot finish.
  bool writes_partials = false;
  /// Lowers schedules with `finish last_block`.
  bool can_finish_by_last_block = false;
  /// Why no schedule of the family can run a segment, whatever the device: asked of every group
  /// that the segmenter considers, so without trying any. Empty: nothing is known beforehand.
  std::function<std::optional<Rejection>(const SegmentFacts&)> refuses{};
};

using FamilySet = std::vector<Family>;

const Family* find_family(const FamilySet& families, std::string_view name);

/// The families built in, without lowering: enough to plan. builtin_families() in
/// codegen/cuda/emit.h has them with it.
FamilySet scheduling_families();

}  // namespace sinter
