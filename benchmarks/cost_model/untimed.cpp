#include "benchmarks/cost_model/untimed.h"

#include <algorithm>

#include "benchmarks/cost_model/ablation.h"
#include "scheduler/segmentation/offers.h"

namespace sinter::bench {
namespace {

/// The first of the schedules as the planner ranks them, without those known to spill; none where
/// no family offers one.
std::vector<Schedule> first_offers(const TimedProblem& problem, const TimedSet& set,
                                   const DeviceLimits& limits, size_t best) {
  KernelPlan kernel{.facts = problem.facts, .in_plan = {}, .candidates = {}};
  std::vector<Rejection> rejections;
  if (!offer_schedules(kernel, rejections, limits, {.families = set.families})) return {};
  std::vector<ProposedSchedule>& offers = kernel.candidates;
  std::erase_if(offers, [&](const ProposedSchedule& offer) {
    return std::ranges::find(problem.spilled, offer.schedule, &TimedSchedule::schedule) !=
           problem.spilled.end();
  });
  rank_schedules(offers, set.families);  // As if those that spill had not been offered.
  std::vector<Schedule> out;
  for (size_t i = 0; i < std::min(best, offers.size()); ++i)
    out.push_back(std::move(offers[i].schedule));
  return out;
}

void add_new(std::vector<Schedule>& schedules, const Schedule& schedule) {
  if (std::ranges::find(schedules, schedule) == schedules.end()) schedules.push_back(schedule);
}

}  // namespace

std::vector<ToTime> untimed_choices(const TimedSet& set, size_t best) {
  std::vector<DeviceLimits> models = {set.limits};
  for (const CostTerm& term : cost_terms()) models.push_back(without(term, set.limits));
  std::vector<ToTime> out;
  for (const TimedProblem& problem : set.problems) {
    ToTime item{.problem = &problem, .schedules = {}};
    for (const DeviceLimits& limits : models) {
      for (const Schedule& schedule : first_offers(problem, set, limits, best)) {
        if (std::ranges::find(problem.timed, schedule, &TimedSchedule::schedule) ==
            problem.timed.end())
          add_new(item.schedules, schedule);
      }
    }
    if (item.schedules.empty()) continue;
    if (!problem.timed.empty()) {
      const auto predicted_us = [&](const TimedSchedule& timed) {
        return predicted(problem, timed, set.limits).total_us;
      };
      add_new(item.schedules, std::ranges::min_element(problem.timed, {}, predicted_us)->schedule);
      add_new(item.schedules,
              std::ranges::min_element(problem.timed, {}, &TimedSchedule::us)->schedule);
    }
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace sinter::bench
