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

bool GroupSchedules::is_slower_than_parts(const MergeTree& tree) {
  if (tree.parts.empty()) return false;
  const double us = of(tree).predicted_us();
  double least_us = 0.0;
  for (const MergeTree& part : tree.parts) least_us += part.verdict.least_us;
  return us > least_us && us > best_us(tree.parts[0]) + best_us(tree.parts[1]);
}

double GroupSchedules::best_us(const MergeTree& tree) {
  if (const auto known = best_us_.find(tree.nodes); known != best_us_.end()) return known->second;
  const double us = is_slower_than_parts(tree) ? best_us(tree.parts[0]) + best_us(tree.parts[1])
                                               : of(tree).predicted_us();
  best_us_.emplace(tree.nodes, us);
  return us;
}

}  // namespace sinter
