#include "runtime/tuning/challengers.h"

#include <gmock/gmock.h>

#include <set>

#include "codegen/cuda/emit.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace sinter::challengers_test {

using ::testing::Contains;
using ::testing::Not;

KernelPlan segment_of(std::string_view name) {
  return plan(find_canned_fusion(name)->build(), {{"rows", 4096}, {"cols", 4096}},
              *find_device("H200"), {.families = builtin_families()})
      .value()
      .kernels.front();
}

std::vector<Schedule> schedules_of(const std::vector<ProposedSchedule>& candidates) {
  std::vector<Schedule> out;
  for (const ProposedSchedule& candidate : candidates) out.push_back(candidate.schedule);
  return out;
}

TEST(ChallengersTest, TheBestPredictedAndEveryKindAreAmongThem) {
  const KernelPlan kernel = segment_of("layer_norm_backward");
  const Schedule& incumbent = kernel.chosen().schedule;
  const auto chosen = choose_challengers(kernel.candidates, incumbent, 16);
  ASSERT_EQ(chosen.size(), 16U);
  std::set<std::string> families;
  std::set<std::string> worth;
  for (const ProposedSchedule& candidate : chosen) families.insert(candidate.schedule.family);
  double best = kernel.candidates.front().predicted.total_us;
  for (const ProposedSchedule& candidate : kernel.candidates)
    best = std::min(best, candidate.predicted.total_us);
  for (const ProposedSchedule& candidate : kernel.candidates) {
    if (candidate.predicted.total_us <= kWorthMeasuring * best)
      worth.insert(candidate.schedule.family);
  }
  EXPECT_GE(worth.size(), 2U) << "the case says nothing";
  EXPECT_EQ(families, worth);
}

TEST(ChallengersTest, NoneIsTheIncumbentOrThereTwice) {
  const KernelPlan kernel = segment_of("rms_norm");
  const Schedule& incumbent = kernel.chosen().schedule;
  const auto chosen = schedules_of(choose_challengers(kernel.candidates, incumbent, 1000));
  EXPECT_THAT(chosen, Not(Contains(incumbent)));
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(chosen[i], chosen[k]);
  }
}

TEST(ChallengersTest, NearDuplicatesComeOnlyWhereThereIsRoom) {
  const KernelPlan kernel = segment_of("rms_norm");
  const Schedule& incumbent = kernel.chosen().schedule;
  for (const Schedule& schedule : schedules_of(choose_challengers(kernel.candidates, incumbent, 6)))
    EXPECT_GE(changes_between(incumbent, schedule).size(), 2U) << print(schedule);
}

TEST(ChallengersTest, TheyAreOrderedByPredictionAndNoneIsHopeless) {
  const KernelPlan kernel = segment_of("softmax");
  double best = kernel.candidates.front().predicted.total_us;
  double worst = best;
  for (const ProposedSchedule& candidate : kernel.candidates) {
    best = std::min(best, candidate.predicted.total_us);
    worst = std::max(worst, candidate.predicted.total_us);
  }
  ASSERT_GT(worst, kWorthMeasuring * best) << "the case says nothing";
  const auto chosen = choose_challengers(kernel.candidates, kernel.chosen().schedule, 1000);
  double last = 0.0;
  for (const ProposedSchedule& candidate : chosen) {
    EXPECT_GE(candidate.predicted.total_us, last);
    last = candidate.predicted.total_us;
  }
  EXPECT_LE(last, kWorthMeasuring * best);
}

TEST(ChallengersTest, NoneAreAskedFor) {
  const KernelPlan kernel = segment_of("softmax");
  EXPECT_TRUE(choose_challengers(kernel.candidates, kernel.chosen().schedule, 0).empty());
}

}  // namespace sinter::challengers_test
