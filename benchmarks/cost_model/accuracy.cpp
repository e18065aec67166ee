#include "benchmarks/cost_model/accuracy.h"

#include <cmath>

#include "benchmarks/cost_model/timed_choice.h"

namespace sinter::bench {
namespace {

/// log(time of what the planner chooses / shortest time); 0 if nothing was timed.
double behind(const TimedCandidates& timed, const FamilySet& families) {
  if (timed.us.empty()) return 0.0;
  const TimedChoice choice = choice_of(timed, families);
  return std::log(timed.us[choice.chosen] / timed.us[choice.fastest]);
}

}  // namespace

std::vector<ProblemAccuracy> accuracy_of(const TimedSet& set, const DeviceLimits& limits) {
  std::vector<ProblemAccuracy> out;
  for (const TimedProblem& problem : set.problems) {
    ProblemAccuracy accuracy{.schedules = problem.timed.size()};
    TimedCandidates all;
    const auto add = [&](const TimedSchedule& timed) {
      all.candidates.push_back({timed.schedule, timed.estimate, predicted(problem, timed, limits)});
      all.us.push_back(timed.us);
      return all.candidates.back().predicted.total_us;
    };
    for (const TimedSchedule& timed : problem.timed)
      accuracy.error +=
          std::abs(std::log(timed.us / add(timed))) / static_cast<double>(problem.timed.size());
    accuracy.behind = behind(all, set.families);
    for (const TimedSchedule& timed : problem.spilled) add(timed);
    accuracy.first_behind = behind(all, set.families);
    out.push_back(accuracy);
  }
  return out;
}

Accuracy mean_of(const std::vector<ProblemAccuracy>& problems) {
  double errors = 0.0;
  double behind = 0.0;
  double first_behind = 0.0;
  double schedules = 0.0;
  for (const ProblemAccuracy& problem : problems) {
    const auto count = static_cast<double>(problem.schedules);
    errors += problem.error * count;
    schedules += count;
    behind += problem.behind;
    first_behind += problem.first_behind;
  }
  const auto share = [](double sum, double count) {
    return 100.0 * std::expm1(count == 0.0 ? 0.0 : sum / count);
  };
  const auto count = static_cast<double>(problems.size());
  return {.error = share(errors, schedules),
          .behind = share(behind, count),
          .first_behind = share(first_behind, count)};
}

}  // namespace sinter::bench
