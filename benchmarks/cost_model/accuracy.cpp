#include "benchmarks/cost_model/accuracy.h"

#include <cmath>

namespace sinter::bench {

std::vector<ProblemAccuracy> accuracy_of(const TimedSet& set, const DeviceLimits& limits) {
  std::vector<ProblemAccuracy> out;
  for (const TimedProblem& problem : set.problems) {
    ProblemAccuracy accuracy{.schedules = problem.timed.size()};
    const TimedSchedule* chosen = nullptr;
    const TimedSchedule* fastest = nullptr;
    double chosen_us = 0.0;
    for (const TimedSchedule& timed : problem.timed) {
      const double us = predicted(problem, timed, limits).total_us;
      accuracy.error +=
          std::abs(std::log(timed.us / us)) / static_cast<double>(problem.timed.size());
      if (chosen == nullptr || us < chosen_us) {
        chosen = &timed;
        chosen_us = us;
      }
      if (fastest == nullptr || timed.us < fastest->us) fastest = &timed;
    }
    if (chosen != nullptr) accuracy.behind = std::log(chosen->us / fastest->us);
    out.push_back(accuracy);
  }
  return out;
}

Accuracy mean_of(const std::vector<ProblemAccuracy>& problems) {
  double errors = 0.0;
  double behind = 0.0;
  double schedules = 0.0;
  for (const ProblemAccuracy& problem : problems) {
    const auto count = static_cast<double>(problem.schedules);
    errors += problem.error * count;
    schedules += count;
    behind += problem.behind;
  }
  const auto share = [](double sum, double count) {
    return 100.0 * std::expm1(count == 0.0 ? 0.0 : sum / count);
  };
  return {.error = share(errors, schedules),
          .behind = share(behind, static_cast<double>(problems.size()))};
}

}  // namespace sinter::bench
