#include "benchmarks/cost_model/accuracy.h"

#include <algorithm>
#include <cmath>

#include "scheduler/segmentation/offers.h"

namespace sinter::bench {

namespace {

/// Schedules of one problem as the planner would rank them: the one that it chooses is not always
/// the one predicted fastest (rank_schedules()).
class Choice {
 public:
  explicit Choice(const FamilySet& families) : families_(families) {}

  void add(const TimedSchedule& timed, const Prediction& predicted) {
    timed_.push_back(&timed);
    ranked_.push_back({timed.schedule, timed.estimate, predicted});
  }
  /// log(time of the chosen one / shortest time).
  [[nodiscard]] double behind() const {
    if (timed_.empty()) return 0.0;
    std::vector<ProposedSchedule> ranked = ranked_;
    rank_schedules(ranked, families_);
    const auto chosen = std::ranges::find(
        timed_, ranked.front().schedule,
        [](const TimedSchedule* timed) -> const Schedule& { return timed->schedule; });
    const auto fastest = std::ranges::min_element(timed_, {}, &TimedSchedule::us);
    return std::log((*chosen)->us / (*fastest)->us);
  }

 private:
  const FamilySet& families_;
  std::vector<const TimedSchedule*> timed_;
  std::vector<ProposedSchedule> ranked_;
};

}  // namespace

std::vector<ProblemAccuracy> accuracy_of(const TimedSet& set, const DeviceLimits& limits) {
  std::vector<ProblemAccuracy> out;
  for (const TimedProblem& problem : set.problems) {
    ProblemAccuracy accuracy{.schedules = problem.timed.size()};
    Choice choice(set.families);
    for (const TimedSchedule& timed : problem.timed) {
      const Prediction prediction = predicted(problem, timed, limits);
      accuracy.error += std::abs(std::log(timed.us / prediction.total_us)) /
                        static_cast<double>(problem.timed.size());
      choice.add(timed, prediction);
    }
    accuracy.behind = choice.behind();
    for (const TimedSchedule& timed : problem.spilled)
      choice.add(timed, predicted(problem, timed, limits));
    accuracy.first_behind = choice.behind();
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
