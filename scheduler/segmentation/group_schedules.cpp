#include "scheduler/segmentation/group_schedules.h"

#include <algorithm>
#include <limits>

#include "scheduler/offers.h"

namespace sinter {
namespace {

Result<ScheduledSegment> schedule(const Fusion& fusion, const DeviceLimits& limits,
                                  const PlanOptions& options) {
  auto facts = analyse(fusion);
  if (!facts) return fail(unsupported(fusion, {facts.error()}, "no family can walk a segment"));
  return schedule_segment(std::move(*facts), limits, options);
}

}  // namespace

double ScheduledGroup::predicted_us() const {
  return segment ? segment->predicted_us() : std::numeric_limits<double>::infinity();
}

ScheduledGroup& GroupSchedules::of(const std::vector<NodeId>& nodes, WorkGraph::LeafViews views) {
  const auto [known, is_new] = known_.try_emplace(nodes, nullptr);
  if (!is_new) return *known->second;
  Fusion fusion = graph_.extract(nodes, views).fusion;
  const uint64_t hash = structural_hash(fusion);
  for (auto [it, last] = made_.equal_range(hash); it != last; ++it) {
    if (!structurally_equal(it->second->fusion, fusion)) continue;
    known->second = it->second.get();
    return *known->second;
  }
  auto segment = schedule(fusion, limits_, options_);
  auto made = std::make_unique<ScheduledGroup>(
      ScheduledGroup{.fusion = std::move(fusion), .segment = std::move(segment)});
  known->second = made.get();
  made_.emplace(hash, std::move(made));
  return *known->second;
}

const GroupSchedules::Outcome& GroupSchedules::outcome_of(const MergeTree& tree) {
  std::pair key(tree.nodes, tree.parts.empty() ? std::vector<NodeId>{} : tree.parts[0].nodes);
  if (const auto known = outcomes_.find(key); known != outcomes_.end()) return known->second;
  const Outcome outcome = outcome_anew(tree);
  return outcomes_.emplace(std::move(key), outcome).first->second;
}

GroupSchedules::Outcome GroupSchedules::outcome_anew(const MergeTree& tree) {
  if (tree.parts.empty()) return {.best_us = of(tree).predicted_us()};
  // Merging saves launches and bytes, but no instruction: where those take longest, the whole is
  // most likely slower, and dearer to schedule than a part that shows it.
  if (tree.verdict.issue_us > tree.verdict.least_us) {
    for (const MergeTree& part : tree.parts) {
      if (!is_slower_than_parts(part)) continue;
      if (const double us = best_of_parts(tree); least_with(part) > us) return {true, us};
    }
  }
  const double us = of(tree).predicted_us();
  double least_us = 0.0;
  for (const MergeTree& part : tree.parts) least_us += part.verdict.least_us;
  if (us <= least_us) return {.best_us = us};
  const double parts_us = best_of_parts(tree);
  return {.is_slower = us > parts_us, .best_us = std::min(us, parts_us)};
}

double GroupSchedules::best_of_parts(const MergeTree& tree) {
  double us = 0.0;
  for (const MergeTree& part : tree.parts) us += best_us(part);
  return us;
}

/// What a kernel takes at least that runs a group and more: what the group's own takes but for its
/// bytes, which may pass within the kernel.
double GroupSchedules::least_with(const MergeTree& part) {
  const ScheduledGroup& scheduled = of(part);
  if (!scheduled.segment) return 0.0;  // More may be what a kernel runs.
  double us = 0.0;
  for (const SegmentPlan& kernel : scheduled.segment->kernels) {
    const Prediction& predicted = kernel.chosen().predicted;
    us += std::max(0.0, predicted.total_us - predicted.memory_us - predicted.l2_us);
  }
  return us;
}

}  // namespace sinter
