#include "scheduler/planning/apply_tuned.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/explain.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"

namespace sinter::apply_tuned_test {

using ::testing::HasSubstr;

const ExtentValues kMatrix = {{"rows", 2048}, {"cols", 4096}};

Plan untuned(std::string_view name) {
  return plan(find_canned_fusion(name)->build(), kMatrix, kLimits).value();
}

/// A choice of the k-th candidate for a segment of a plan.
TunedSchedule choice(const KernelPlan& kernel, size_t candidate) {
  return {.segment = structural_hash(kernel.facts.fusion),
          .schedule = print(kernel.candidates.at(candidate).schedule),
          .tuned_us = 9.5,
          .untuned_us = 10.25,
          .samples = 15};
}

Result<Plan> tuned_plan(std::string_view name, std::vector<TunedSchedule> schedules,
                        PlanOptions options = {}) {
  options.tuned = std::make_shared<const TunedChoices>(
      TunedChoices{.source = "tuned.db", .schedules = std::move(schedules)});
  return plan(find_canned_fusion(name)->build(), kMatrix, kLimits, options);
}

/// The last decision about tuned schedules.
Decision tuned_decision(const Plan& plan) {
  for (auto decision = plan.decisions.rbegin(); decision != plan.decisions.rend(); ++decision) {
    if (decision->question == kTunedQuestion) return *decision;
  }
  return {};
}

TEST(ApplyTunedTest, AMeasuredScheduleIsTakenAndOnRecord) {
  const Plan before = untuned("rms_norm");
  const TunedSchedule third = choice(before.kernels.front(), 2);
  const auto after = tuned_plan("rms_norm", {third});
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_EQ(print(after->kernels.front().chosen().schedule), third.schedule);
  EXPECT_TRUE(after->kernels.front().is_required) << "a re-plan must not replace what was measured";
  EXPECT_EQ(after->kernels.front().candidates.size(), before.kernels.front().candidates.size());
  const Decision decision = tuned_decision(*after);
  EXPECT_EQ(decision.chosen, "the tuned schedule");
  EXPECT_THAT(decision.because, HasSubstr("tuned.db: measured 9.50 us, untuned 10.25 us"));
  EXPECT_THAT(explain(*after), HasSubstr("measured 9.50 us"));
}

TEST(ApplyTunedTest, WithoutChoicesNothingChangesAndThatIsOnRecord) {
  const Plan before = untuned("softmax");
  const auto after = tuned_plan("softmax", {});
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_EQ(after->kernels.front().candidates, before.kernels.front().candidates);
  ASSERT_EQ(after->decisions.size(), before.decisions.size() + 1);
  EXPECT_THAT(tuned_decision(*after).because, HasSubstr("tuned.db has nothing about this graph"));
}

TEST(ApplyTunedTest, TheKernelThatFinishesFollows) {
  const Plan before = untuned("layer_norm_backward");
  ASSERT_EQ(before.kernels.size(), 2U);
  // One whose grid, and so what it leaves, is another.
  const auto& candidates = before.kernels.front().candidates;
  const auto other = std::ranges::find_if(candidates, [&](const ProposedSchedule& candidate) {
    return candidate.schedule.finish == Finish::kKernel &&
           candidate.schedule.persistent_blocks !=
               before.kernels.front().chosen().schedule.persistent_blocks;
  });
  ASSERT_NE(other, candidates.end());
  const auto after =
      tuned_plan("layer_norm_backward",
                 {choice(before.kernels.front(), static_cast<size_t>(other - candidates.begin()))});
  ASSERT_TRUE(after) << after.error().text();
  ASSERT_EQ(after->kernels.size(), 2U);
  EXPECT_TRUE(after->kernels[{1}].finishes);
  const auto pinned = plan(find_canned_fusion("layer_norm_backward")->build(), kMatrix, kLimits,
                           {.pin = {.schedule = other->schedule}});
  ASSERT_TRUE(pinned) << pinned.error().text();
  EXPECT_EQ(after->workspace, pinned->workspace);
  EXPECT_EQ(after->kernels[{1}].chosen(), pinned->kernels[{1}].chosen());
}

// Texts of older databases do not say it, and one of the two was measured alone.
TEST(ApplyTunedTest, KernelsOfPartsOverlapAsPlanned) {
  const Fusion fusion = find_canned_fusion("row_sum")->build();
  const ExtentValues extents = {{"rows", 8}, {"cols", 1 << 22}};
  const Plan before = plan(fusion, extents, kLimits).value();
  ASSERT_EQ(before.kernels.size(), 2U);
  std::vector<TunedSchedule> tuned;
  for (const KernelPlan& kernel : before.kernels) {
    Schedule schedule = kernel.candidates.at(1).schedule;
    ASSERT_NE(schedule.dependent_launch, DependentLaunch::kNone);
    schedule.dependent_launch = DependentLaunch::kNone;
    tuned.push_back(choice(kernel, 1));
    tuned.back().schedule = print(schedule);
  }
  PlanOptions options;
  options.tuned = std::make_shared<const TunedChoices>(
      TunedChoices{.source = "tuned.db", .schedules = std::move(tuned)});
  const Plan after = plan(fusion, extents, kLimits, options).value();
  for (const KernelId i : {KernelId{0}, KernelId{1}})
    EXPECT_EQ(after.kernels[i].chosen().schedule, before.kernels[i].candidates[1].schedule);
}

TEST(ApplyTunedTest, WhatCannotBeTakenIsReported) {
  const Plan before = untuned("rms_norm");
  TunedSchedule old = choice(before.kernels.front(), 1);
  old.schedule = "schedule multi_wave {\n  threads_per_lane 256\n}\n";
  const auto unparsed = tuned_plan("rms_norm", {old});
  ASSERT_TRUE(unparsed) << unparsed.error().text();
  EXPECT_EQ(unparsed->kernels.front().chosen(), before.kernels.front().chosen());
  EXPECT_FALSE(unparsed->kernels.front().is_required);
  EXPECT_EQ(tuned_decision(*unparsed).chosen, "as planned");
  EXPECT_THAT(tuned_decision(*unparsed).because, HasSubstr("threads_per_lane"));

  TunedSchedule foreign = choice(before.kernels.front(), 1);
  foreign.schedule = "schedule looped {\n  accumulators shared\n}\n";
  const auto other_family = tuned_plan("rms_norm", {foreign});
  ASSERT_TRUE(other_family) << other_family.error().text();
  EXPECT_EQ(other_family->kernels.front().chosen(), before.kernels.front().chosen());
  EXPECT_THAT(tuned_decision(*other_family).because,
              HasSubstr("2:3: the family 'looped' has no field 'accumulators'"));

  Schedule large = before.kernels.front().chosen().schedule;
  large.threads_per_row = 4096;
  TunedSchedule unfit = choice(before.kernels.front(), 1);
  unfit.schedule = print(large);
  const auto refused = tuned_plan("rms_norm", {unfit});
  ASSERT_TRUE(refused) << refused.error().text();
  EXPECT_EQ(refused->kernels.front().chosen(), before.kernels.front().chosen());
  EXPECT_THAT(tuned_decision(*refused).because, HasSubstr("is refused"));
}

TEST(ApplyTunedTest, AChoiceForAnotherGraphIsReported) {
  const Plan other = untuned("softmax");
  const auto after = tuned_plan("rms_norm", {choice(other.kernels.front(), 1)});
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_EQ(after->kernels.front().candidates, untuned("rms_norm").kernels.front().candidates);
  EXPECT_THAT(tuned_decision(*after).because, HasSubstr("cut otherwise"));
}

TEST(ApplyTunedTest, APinBeatsWhatWasMeasured) {
  const Plan before = untuned("softmax");
  const int64_t threads = before.kernels.front().chosen().schedule.threads_per_row;
  const auto& candidates = before.kernels.front().candidates;
  const auto other = std::ranges::find_if(candidates, [&](const ProposedSchedule& candidate) {
    return candidate.schedule.threads_per_row != threads;
  });
  ASSERT_NE(other, candidates.end());
  const auto after = tuned_plan(
      "softmax", {choice(before.kernels.front(), static_cast<size_t>(other - candidates.begin()))},
      {.pin = {.threads_per_row = threads}});
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_EQ(after->kernels.front().chosen().schedule.threads_per_row, threads);
  EXPECT_THAT(tuned_decision(*after).because, HasSubstr("pinned"));
}

}  // namespace sinter::apply_tuned_test
