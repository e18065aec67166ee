// Planning ends where the caller or the time says so, before the next family is asked, with an
// error of its own kind; otherwise nothing changes.

#include "scheduler/families/interruption.h"

#include <gmock/gmock.h>

#include <limits>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/sweep.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::interruption_test {

using testing::HasSubstr;

TEST(InterruptionTest, KeepsThePlanThatItDoesNotEnd) {
  const Fusion fusion = find_canned_fusion("rms_norm")->build();
  size_t steps = 0;
  const FamilySet told =
      interruptible(scheduling_families(), {.progress = [&](const Progress& progress) {
                      EXPECT_EQ(progress.steps, steps++);
                      EXPECT_FALSE(progress.family.empty());
                      return true;
                    }});
  const auto with = plan(fusion, matrix(64, 1024), kLimits, {.families = told});
  const auto without = plan(fusion, matrix(64, 1024), kLimits);
  ASSERT_TRUE(with && without);
  EXPECT_GT(steps, 0U);
  EXPECT_EQ(with->decisions, without->decisions);
  EXPECT_EQ(with->kernels.front().candidates, without->kernels.front().candidates);
}

TEST(InterruptionTest, EndsWithATypedError) {
  const Fusion fusion = find_canned_fusion("rms_norm")->build();
  const FamilySet late =
      interruptible(scheduling_families(), {.deadline = std::chrono::steady_clock::now()});
  const auto planned = plan(fusion, matrix(64, 1024), kLimits, {.families = late});
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(planned.error().message, HasSubstr("time budget ended after 0"));
  const FamilySet stopped =
      interruptible(scheduling_families(), {.progress = [](const Progress&) { return false; }});
  const auto cancelled = plan(fusion, matrix(64, 1024), kLimits, {.families = stopped});
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::kCancelled);
  EXPECT_THAT(cancelled.error().message, HasSubstr("the caller cancelled before"));
}

TEST(InterruptionTest, AMapIsCancelledToo) {
  const FamilySet stopped =
      interruptible(scheduling_families(), {.progress = [](const Progress&) { return false; }});
  FusionBuilder b("sums");
  b.output(b.sum(b.input(DType::kF32, {b.symbol("n"), 64}), {1}));
  const auto swept = sweep(b.build(), {}, kLimits, {{"n", {1, 2}}}, {.families = stopped});
  ASSERT_FALSE(swept);
  EXPECT_EQ(swept.error().kind, ErrorKind::kCancelled);
}

TEST(InterruptionTest, BudgetsAreSecondsThatAClockCanAdd) {
  EXPECT_EQ(*deadline_in(0.0), std::nullopt);
  EXPECT_GT(**deadline_in(1.0), std::chrono::steady_clock::now());
  for (const double seconds : {-1.0, 1e300, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(deadline_in(seconds).error().kind, ErrorKind::kInvalidArgument);
}

/// Steps are counted for planning and compiling apart, and a step that is refused is none.
TEST(InterruptionTest, StepsAreCountedByStage) {
  std::vector<size_t> counted;
  InterruptionPoint point({.progress = [&](const Progress& progress) {
    counted.push_back(progress.steps);
    return counted.size() < 5;
  }});
  using Stage = Progress::Stage;
  point.check(Stage::kPlan, "looped", "f");
  point.check(Stage::kPlan, "column", "f");
  point.check(Stage::kCompile, "column", "f");
  point.check(Stage::kPlan, "column", "g");
  EXPECT_THROW(point.check(Stage::kCompile, "column", "g"), SinterException);
  EXPECT_THAT(counted, testing::ElementsAre(0, 1, 0, 2, 1));
}

TEST(InterruptionTest, ADeadlineIsAnErrorOfItsOwn) {
  InterruptionPoint point({.deadline = std::chrono::steady_clock::now()});
  EXPECT_THROW(point.check(Progress::Stage::kCompile, "looped", "f"), DeadlinePassed);
}

TEST(InterruptionTest, TheLongestBudgetIsABillionSeconds) {
  EXPECT_TRUE(deadline_in(1e9).has_value());
  const auto longer = deadline_in(1.1e9);
  ASSERT_FALSE(longer.has_value());
  EXPECT_THAT(longer.error().remedy, HasSubstr("up to 1e+09"));
}

}  // namespace sinter::interruption_test
