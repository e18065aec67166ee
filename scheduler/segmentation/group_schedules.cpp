#include "scheduler/segmentation/group_schedules.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/offers.h"

namespace sinter {
namespace {

Result<ScheduledSegment> schedule(SegmentFacts facts, const DeviceLimits& limits,
                                  const PlanOptions& options, FinishKernels& finishes) {
  auto segment = schedule_segment(std::move(facts), limits, options, &finishes);
  if (!segment) return segment;
  for (KernelPlan& kernel : segment->kernels) {
    std::vector<ProposedSchedule>& all = kernel.candidates;
    if (all.size() <= 1 + kKeptCandidates) continue;
    kernel.candidates =
        std::vector<ProposedSchedule>(std::make_move_iterator(all.begin()),
                                      std::make_move_iterator(all.begin() + 1 + kKeptCandidates));
  }
  return segment;
}

}  // namespace

double ScheduledGroup::predicted_us() const {
  return segment ? segment->predicted_us() : std::numeric_limits<double>::infinity();
}

double GroupSchedules::predicted_us(const std::vector<NodeId>& nodes, GroupJudge& judge) {
  const GroupVerdict& verdict = judge.judge(nodes);
  if (!verdict.legal) return std::numeric_limits<double>::infinity();
  return like(nodes, verdict, &judge).predicted_us();
}

ScheduledGroup& GroupSchedules::of(const std::vector<NodeId>& nodes, WorkGraph::LeafViews views,
                                   GroupJudge* judge) {
  if (const auto known = known_.find(nodes); known != known_.end()) return *known->second;
  std::optional<SegmentFacts> walk = judge != nullptr ? judge->take_facts(nodes) : std::nullopt;
  Fusion fusion = walk ? std::move(walk->fusion) : graph_.extract_graph(nodes, views);
  const uint64_t hash = structural_hash(fusion);
  for (auto [it, last] = made_.equal_range(hash); it != last; ++it) {
    const auto& [other, other_views, scheduled] = it->second;
    if (!structurally_equal(graph_.extract_graph(other, other_views), fusion)) continue;
    known_.emplace(nodes, scheduled.get());
    return *scheduled;
  }
  std::vector<ValueId> outputs = fusion.outputs;
  tl::expected<SegmentFacts, Rejection> facts;
  if (walk) {
    walk->fusion = std::move(fusion);
    facts = find_kept_values(std::move(*walk));
  } else {
    facts = analyse(std::move(fusion));
  }
  auto segment = facts ? schedule(std::move(*facts), limits_, options_, finishes_)
                       : fail(unsupported(graph_.extract(nodes, views).fusion, {facts.error()},
                                          "no family can walk a segment"));
  auto made = std::make_unique<ScheduledGroup>(
      ScheduledGroup{.outputs = std::move(outputs), .segment = std::move(segment)});
  known_.emplace(nodes, made.get());
  return *made_.emplace(hash, Made{nodes, views, std::move(made)})->second.scheduled;
}

ScheduledGroup& GroupSchedules::like(const std::vector<NodeId>& nodes, const GroupVerdict& verdict,
                                     GroupJudge* judge) {
  if (verdict.structure == 0) return of(nodes, verdict.views, judge);
  if (const auto known = alike_.find(verdict.structure); known != alike_.end())
    return *known->second;
  ScheduledGroup& scheduled = of(nodes, verdict.views, judge);
  alike_.emplace(verdict.structure, &scheduled);
  return scheduled;
}

std::vector<NodeId> GroupSchedules::key_of(const MergeTree& tree) {
  std::vector<NodeId> key = tree.nodes;
  if (tree.parts.empty()) return key;
  key.push_back(WorkGraph::kNone);
  const std::vector<NodeId>& first = tree.parts.front().nodes;
  key.insert(key.end(), first.begin(), first.end());
  return key;
}

const GroupSchedules::Outcome* GroupSchedules::known_outcome(const MergeTree& tree) const {
  const auto known = outcomes_.find(key_of(tree));
  return known == outcomes_.end() ? nullptr : &known->second;
}

/// Trees may be as deep as groups are large, so the recursion has an explicit stack.
const GroupSchedules::Outcome& GroupSchedules::outcome_of(const MergeTree& tree) {
  std::vector<const MergeTree*> open = {&tree};
  while (known_outcome(tree) == nullptr) {
    const MergeTree& at = *open.back();
    const Attempt attempt = try_outcome(at);
    if (attempt.needs != nullptr) {
      open.push_back(attempt.needs);
    } else {
      outcomes_.emplace(key_of(at), attempt.outcome);
      open.pop_back();
    }
  }
  return *known_outcome(tree);
}

GroupSchedules::Attempt GroupSchedules::try_outcome(const MergeTree& tree) {
  if (tree.parts.empty()) return {.outcome = {.best_us = like(tree).predicted_us()}};
  std::vector<const Outcome*> parts;
  const auto unknown_part = [&]() -> const MergeTree* {
    while (parts.size() < tree.parts.size()) {
      const MergeTree& part = tree.parts[parts.size()];
      parts.push_back(known_outcome(part));
      if (parts.back() == nullptr) return &part;
    }
    return nullptr;
  };
  const auto best_of_parts = [&] {
    double us = 0.0;
    for (const Outcome* part : parts) us += part->best_us;
    return us;
  };
  // Merging saves launches and bytes, but no instructions. If instructions take longest, the whole
  // is most likely slower, and is more expensive to schedule than a part that shows it.
  if (tree.verdict->issue_us > tree.verdict->least_us) {
    for (const MergeTree& part : tree.parts) {
      const Outcome* of_part = known_outcome(part);
      if (of_part == nullptr) return {.needs = &part};
      if (!of_part->is_slower) continue;
      if (const MergeTree* unknown = unknown_part()) return {.needs = unknown};
      if (const double us = best_of_parts(); least_with(part) > us)
        return {.outcome = {.is_slower = true, .best_us = us}};
    }
  }
  const double us = like(tree).predicted_us();
  double least_us = 0.0;
  for (const MergeTree& part : tree.parts) least_us += part.verdict->least_us;
  if (us <= least_us) return {.outcome = {.best_us = us}};
  // The time of one part and the lower bound of the other may already decide.
  const Outcome* first = known_outcome(tree.parts.front());
  if (first == nullptr) return {.needs = &tree.parts.front()};
  if (us <= first->best_us + tree.parts.back().verdict->least_us)
    return {.outcome = {.best_us = us}};
  if (const MergeTree* unknown = unknown_part()) return {.needs = unknown};
  const double parts_us = best_of_parts();
  return {.outcome = {.is_slower = us > parts_us, .best_us = std::min(us, parts_us)}};
}

/// Lower bound of a kernel that runs a group and more: the time of the group's own kernel without
/// its bytes, which may pass within the kernel.
double GroupSchedules::least_with(const MergeTree& part) {
  const ScheduledGroup& scheduled = like(part);
  if (!scheduled.segment) return 0.0;  // A kernel may still run a larger group.
  double us = 0.0;
  for (const KernelPlan& kernel : scheduled.segment->kernels) {
    const Prediction& predicted = kernel.chosen().predicted;
    us += std::max(0.0, predicted.total_us - predicted.memory_us - predicted.l2_us);
  }
  return us;
}

}  // namespace sinter
