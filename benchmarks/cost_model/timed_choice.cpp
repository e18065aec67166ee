#include "benchmarks/cost_model/timed_choice.h"

#include <algorithm>

#include "scheduler/segmentation/offers.h"

namespace sinter::bench {

TimedChoice choice_of(const TimedCandidates& timed, const FamilySet& families) {
  std::vector<ProposedSchedule> ranked = timed.candidates;
  rank_schedules(ranked, families);
  const auto chosen =
      std::ranges::find(timed.candidates, ranked.front().schedule, &ProposedSchedule::schedule);
  const auto fastest = std::ranges::min_element(timed.us);
  return {.chosen = static_cast<size_t>(chosen - timed.candidates.begin()),
          .fastest = static_cast<size_t>(fastest - timed.us.begin())};
}

}  // namespace sinter::bench
