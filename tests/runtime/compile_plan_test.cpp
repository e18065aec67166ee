#include "runtime/compile/compile_plan.h"

#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <thread>

#include "codegen/lower/interruptible_lowering.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace sinter::compile_plan_test {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// A plan with schedules of the test's choice, in the test's order.
class CompilePlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
  }

  /// The candidates of softmax that `wanted` admits, cheapest prediction first, as an estimate that
  /// says `lie` of the first makes them.
  Plan plan_with(const std::function<bool(const Schedule&)>& wanted, size_t count) const {
    Plan planned = plan(find_canned_fusion("softmax")->build(), {{"rows", 8192}, {"cols", 8192}},
                        limits_, {.families = families_})
                       .value();
    std::vector<ProposedSchedule> kept;
    for (const ProposedSchedule& candidate : planned.kernels.front().candidates) {
      if (kept.size() < count && wanted(candidate.schedule)) kept.push_back(candidate);
    }
    planned.kernels.front().candidates = std::move(kept);
    return planned;
  }

  /// The whole row in registers of 128 threads, under a promise that leaves each 32 of them.
  Plan plan_that_spills() const {
    Plan planned =
        plan_with([](const Schedule& schedule) { return schedule.family == "looped"; }, 3);
    Schedule schedule{.family = "multi_wave",
                      .parameters = MultiWaveParameters{},
                      .threads_per_row = 128,
                      .rows_per_block = 1,
                      .vector_width = 8,
                      .unroll = 1,
                      .min_blocks_per_sm = 16};
    const SegmentFacts& facts = planned.kernels.front().facts;
    for (const ValueId value : facts.kept) schedule.kept.push_back({value, Residency::kRegister});
    ResourceEstimate estimate =
        find_family(families_, "multi_wave")->estimate(facts, schedule, limits_).value();
    // The lie: it fits, and is fastest.
    estimate.registers = 30;
    complete(estimate, limits_, schedule.min_blocks_per_sm);
    auto& candidates = planned.kernels.front().candidates;
    candidates.insert(candidates.begin(), {schedule, estimate, {.total_us = 1.0}});
    return planned;
  }

  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
  KernelCache cache_{{}};
  const DeviceLimits limits_ = *find_device("H200");
  const FamilySet families_ = builtin_families();
};

// What the blocks of a persistent grid do one after the other counts for compiled kernels too.
TEST_F(CompilePlanTest, PersistentKernelsAreComparedAsTheyWerePlanned) {
  Plan planned =
      plan(find_canned_fusion("layer_norm_backward")->build(), {{"rows", 8192}, {"cols", 4096}},
           *find_device("A100"), {.families = families_, .pin = {.family = "multi_wave"}})
          .value();
  ASSERT_GT(planned.kernels.front().chosen().estimate.waves, 10.0);
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_, {.max_replans = 0});
  ASSERT_TRUE(compiled) << compiled.error().text();
  const CompileAttempt& attempt = compiled->kernels.front().attempts.front();
  ASSERT_EQ(attempt.resources.spill_store_bytes, 0);
  EXPECT_NEAR(attempt.predicted.total_us, attempt.proposed.predicted.total_us,
              0.05 * attempt.proposed.predicted.total_us);
}

// Its second kernel would sum as many partial results as the former grid leaves.
TEST_F(CompilePlanTest, RefusesAPlanWhosePartialResultsAreOfAnotherGrid) {
  Plan planned = plan(find_canned_fusion("row_and_total_loss")->build(),
                      {{"rows", 65536}, {"cols", 1024}}, limits_, {.families = families_})
                     .value();
  ASSERT_EQ(planned.kernels.size(), 2U);
  auto& candidates = planned.kernels.front().candidates;
  const auto other = std::ranges::find_if(candidates, [&](const ProposedSchedule& candidate) {
    return candidate.schedule.finish == candidates[0].schedule.finish &&
           candidate.schedule.persistent_blocks != candidates[0].schedule.persistent_blocks;
  });
  ASSERT_NE(other, candidates.end());
  candidates = {ProposedSchedule(*other)};
  const auto refused = compile_plan(planned, *compiler_, cache_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().remedy, HasSubstr("plan_finish()"));
  ASSERT_TRUE(plan_finish(planned, KernelId{0}, candidates.front().schedule, families_));
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_);
  EXPECT_TRUE(compiled) << compiled.error().text();
}

TEST_F(CompilePlanTest, ARelaxedScheduleThatLostIsNotCompiledAgain) {
  FamilySet families = families_;
  // Fewer blocks are always slower, spilled or not.
  for (Family& family : families) {
    family.predict = [](const SegmentFacts&, const Schedule& schedule, const ResourceEstimate&,
                        const DeviceLimits&) {
      return Prediction{.total_us = 1000.0 / static_cast<double>(schedule.min_blocks_per_sm)};
    };
  }
  const auto compiled = compile_plan(plan_that_spills(), *compiler_, cache_,
                                     {.families = families, .max_replans = 5});
  ASSERT_TRUE(compiled) << compiled.error().text();
  const std::vector<CompileAttempt>& attempts = compiled->kernels.front().attempts;
  ASSERT_GE(attempts.size(), 2U);
  EXPECT_LT(attempts[1].proposed.schedule.min_blocks_per_sm,
            attempts[0].proposed.schedule.min_blocks_per_sm);
  for (size_t i = 0; i < attempts.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(attempts[i].proposed.schedule, attempts[j].proposed.schedule) << i << " and " << j;
  }
}

TEST_F(CompilePlanTest, KeepsTheFirstCandidateThatHoldsItsEstimate) {
  // The best of those that keep the row needs one register more than there are.
  Plan planned =
      plan_with([](const Schedule& schedule) { return schedule.family == "looped"; }, 100);
  const ProposedSchedule first = planned.kernels.front().chosen();
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const KernelBuild& kernel = compiled->kernels.front();
  EXPECT_EQ(kernel.chosen, first);
  EXPECT_THAT(kernel.attempts, SizeIs(1));
  const Decision& decision = compiled->plan.decisions.back();
  EXPECT_EQ(decision.question, "does the compiled kernel keep to its estimate");
  EXPECT_THAT(decision.candidates, SizeIs(1));
  EXPECT_EQ(decision.chosen, decision.candidates.front().what);
}

TEST_F(CompilePlanTest, ReplacesACandidateThatSpills) {
  const auto compiled = compile_plan(plan_that_spills(), *compiler_, cache_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const KernelBuild& kernel = compiled->kernels.front();
  ASSERT_GT(kernel.attempts.front().resources.spill_store_bytes, 0);
  EXPECT_GT(kernel.attempts.size(), 1U);
  EXPECT_LE(kernel.attempts.size(), 3U);
  EXPECT_EQ(kernel.kernel->resources.spill_store_bytes, 0);
  for (const CompileAttempt& attempt : kernel.attempts) {
    // Predictions are those with the compiler's figures, not the planner's.
    EXPECT_GT(attempt.predicted.total_us, 10.0);
  }
  EXPECT_GT(kernel.attempts.front().predicted.spill_us, 0.0);

  const Decision& decision = compiled->plan.decisions.back();
  ASSERT_EQ(decision.candidates.size(), kernel.attempts.size());
  EXPECT_THAT(decision.candidates.front().because, HasSubstr("(predicted 30)"));
  EXPECT_THAT(decision.candidates.front().because, HasSubstr("bytes spilled"));
  EXPECT_THAT(decision.because, HasSubstr("compiled candidates"));
  EXPECT_NE(decision.chosen, decision.candidates.front().what);
}

// Fewer blocks leave registers, but hide less: another schedule may be faster than that.
TEST_F(CompilePlanTest, PrefersACandidateThatIsFasterThanARelaxedPromise) {
  Plan planned = plan_that_spills();
  auto& candidates = planned.kernels.front().candidates;
  candidates[1].predicted.total_us = 2.0;
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const KernelBuild& kernel = compiled->kernels.front();
  ASSERT_GE(kernel.attempts.size(), 2U);
  EXPECT_EQ(kernel.attempts[1].proposed.schedule.family, "looped");
}

// What one lacks all of its kind lack: the next that is compiled is of another.
TEST_F(CompilePlanTest, PassesOverCandidatesThatWouldSpillLikewise) {
  Plan planned = plan_that_spills();
  auto& candidates = planned.kernels.front().candidates;
  ProposedSchedule first = candidates.front();
  // No promise to relax, and a row too long for the registers of so few threads.
  first.schedule.min_blocks_per_sm = 1;
  first.schedule.threads_per_row = 16;
  first.schedule.rows_per_block = 2;
  const SegmentFacts& facts = planned.kernels.front().facts;
  first.estimate = find_family(families_, "multi_wave")
                       ->estimate(facts, first.schedule, limits_)
                       .value_or(first.estimate);
  first.estimate.threads = 32;
  first.estimate.registers = 60;
  ProposedSchedule alike = first;
  alike.schedule.unroll = 2;
  alike.estimate.registers = 250;
  alike.predicted.total_us = 1.1;
  candidates.front() = first;
  candidates.insert(candidates.begin() + 1, {alike, alike});
  // Worth compiling whatever the first one is found to take, and none of its kind.
  ProposedSchedule& other = candidates[3];
  other.predicted.total_us = 2.0;
  other.estimate.registers = 24;
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const KernelBuild& kernel = compiled->kernels.front();
  ASSERT_GE(kernel.attempts.size(), 2U);
  EXPECT_GT(kernel.attempts[0].resources.spill_store_bytes, 0);
  EXPECT_EQ(kernel.attempts[1].proposed.schedule.family, "looped");
}

// What it needs beyond its estimate says nothing of what the compiler makes of a register-limited
// candidate, but one of these that spills does.
TEST_F(CompilePlanTest, TriesOneRegisterLimitedCandidateAfterOneThatIsNot) {
  Plan planned = plan_that_spills();
  auto& candidates = planned.kernels.front().candidates;
  // No promise to relax, and a row too long for the registers of so few threads.
  ProposedSchedule& first = candidates.front();
  first.schedule.min_blocks_per_sm = 1;
  first.schedule.threads_per_row = 16;
  first.schedule.rows_per_block = 2;
  first.estimate.threads = 32;
  first.estimate.registers = 60;
  first.estimate.register_cap = limits_.registers_per_thread;
  ASSERT_FALSE(is_register_limited(first.estimate));
  ProposedSchedule squeezed = first;
  squeezed.schedule.unroll = 2;
  squeezed.estimate.registers = limits_.registers_per_thread + 1;
  squeezed.predicted.total_us = 1.1;
  ProposedSchedule another = squeezed;
  another.schedule.unroll = 4;
  candidates.insert(candidates.begin() + 1, {squeezed, another});
  candidates[3].predicted.total_us = 2.0;
  candidates[3].estimate.register_cap = limits_.registers_per_thread;
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const std::vector<CompileAttempt>& attempts = compiled->kernels.front().attempts;
  ASSERT_GE(attempts.size(), 3U);
  EXPECT_GT(attempts[0].resources.spill_store_bytes, 0);
  EXPECT_EQ(attempts[1].proposed.schedule, squeezed.schedule);
  EXPECT_GT(attempts[1].resources.spill_store_bytes, 0);
  EXPECT_EQ(attempts[2].proposed.schedule.family, "looped");
}

TEST_F(CompilePlanTest, FirstRelaxesThePromiseOfACandidateThatSpills) {
  Plan planned = plan_that_spills();
  auto& candidates = planned.kernels.front().candidates;
  candidates.erase(candidates.begin() + 1, candidates.end());
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_, {.max_replans = 1});
  ASSERT_TRUE(compiled) << compiled.error().text();
  const auto& attempts = compiled->kernels.front().attempts;
  ASSERT_THAT(attempts, SizeIs(2));
  Schedule relaxed = attempts[1].proposed.schedule;
  EXPECT_LT(relaxed.min_blocks_per_sm, attempts[0].proposed.schedule.min_blocks_per_sm);
  relaxed.min_blocks_per_sm = attempts[0].proposed.schedule.min_blocks_per_sm;
  EXPECT_EQ(relaxed, attempts[0].proposed.schedule);
  EXPECT_LT(attempts[1].resources.spill_store_bytes, attempts[0].resources.spill_store_bytes);
}

TEST_F(CompilePlanTest, StrictnessCompilesNothingElse) {
  const auto compiled = compile_plan(plan_that_spills(), *compiler_, cache_, {.max_replans = 0});
  ASSERT_TRUE(compiled) << compiled.error().text();
  const KernelBuild& kernel = compiled->kernels.front();
  EXPECT_THAT(kernel.attempts, SizeIs(1));
  EXPECT_GT(kernel.kernel->resources.spill_store_bytes, 0);
  EXPECT_EQ(cache_.statistics().misses, 1);
}

TEST_F(CompilePlanTest, KeepsAPinnedScheduleThatSpills) {
  const Plan spills = plan_that_spills();
  const Schedule pinned = spills.kernels.front().chosen().schedule;
  Plan planned =
      plan(spills.fusion, {}, limits_, {.families = families_, .pin = {.schedule = pinned}})
          .value();
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const KernelBuild& kernel = compiled->kernels.front();
  EXPECT_EQ(kernel.chosen.schedule, pinned);
  EXPECT_THAT(kernel.attempts, SizeIs(1));
  EXPECT_GT(kernel.kernel->resources.spill_store_bytes, 0);
}

TEST_F(CompilePlanTest, TriesTheNextCandidateWhenTheFirstIsSlowerThanItsPrediction) {
  Plan planned =
      plan_with([](const Schedule& schedule) { return schedule.family == "multi_wave"; }, 3);
  // Reads its rows twice and keeps no more than one block's loads in flight: said to be fast.
  ProposedSchedule liar{.schedule = {.family = "looped",
                                     .parameters = LoopedParameters{},
                                     .threads_per_row = 32,
                                     .rows_per_block = 1,
                                     .vector_width = 8},
                        .estimate = {},
                        .predicted = {.total_us = 1.0}};
  liar.estimate = find_family(families_, "looped")
                      ->estimate(planned.kernels.front().facts, liar.schedule, limits_)
                      .value();
  auto& candidates = planned.kernels.front().candidates;
  candidates.insert(candidates.begin(), liar);
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_);
  ASSERT_TRUE(compiled) << compiled.error().text();
  const KernelBuild& kernel = compiled->kernels.front();
  ASSERT_GE(kernel.attempts.size(), 2U);
  EXPECT_EQ(kernel.attempts.front().proposed, liar);
  EXPECT_EQ(kernel.chosen.schedule.family, "multi_wave");
}

TEST_F(CompilePlanTest, EqualSegmentsShareOneKernel) {
  FusionBuilder b("layers");
  ValueId x = b.input(DType::kF32, {64, 256}, "x");
  for (int i = 0; i < 3; ++i) x = b.external("f", {b.exp(x)}, {{DType::kF32, {64, 256}}})[0];
  b.output(x);
  Plan planned = plan(b.build(), {}, limits_, {.families = families_}).value();
  ASSERT_THAT(planned.kernels, SizeIs(3));
  ASSERT_TRUE(planned.kernels[{2}].same_as);
  const auto compiled = compile_plan(std::move(planned), *compiler_, cache_, {.threads = 4});
  ASSERT_TRUE(compiled) << compiled.error().text();
  ASSERT_NE(compiled->kernels.front().kernel, nullptr);
  EXPECT_EQ(compiled->kernels[{1}].kernel, compiled->kernels.front().kernel);
  EXPECT_EQ(compiled->kernels[{2}].kernel, compiled->kernels.front().kernel);
  EXPECT_EQ(compiled->kernels[{2}].source, compiled->kernels.front().source);
}

TEST_F(CompilePlanTest, TheResultDoesNotDependOnWhatTheCacheHolds) {
  const auto cold = compile_plan(plan_that_spills(), *compiler_, cache_);
  const auto warm = compile_plan(plan_that_spills(), *compiler_, cache_);
  ASSERT_TRUE(cold);
  ASSERT_TRUE(warm);
  EXPECT_EQ(cold->plan.decisions, warm->plan.decisions);
  EXPECT_EQ(cold->kernels.front().chosen, warm->kernels.front().chosen);
  EXPECT_EQ(cold->kernels.front().origin, KernelOrigin::kCompiled);
  EXPECT_EQ(warm->kernels.front().origin, KernelOrigin::kMemory);
}

// A defect that shows on a helper's thread must not end the process.
TEST_F(CompilePlanTest, WhatAHelperThrowsReachesTheCaller) {
  FusionBuilder b("two_kernels");
  const ValueId x = b.input(DType::kF32, {64, 256}, "x");
  const ValueId called = b.external("f", {b.sum(x, {1})}, {{DType::kF32, {64}}})[0];
  b.output(b.exp(called));
  Plan planned = plan(b.build(), {}, limits_, {.families = families_}).value();
  ASSERT_THAT(planned.kernels, SizeIs(2));

  std::promise<void> helper_began;
  const std::shared_future<void> began = helper_began.get_future().share();
  const std::thread::id caller = std::this_thread::get_id();
  FamilySet families = families_;
  for (Family& family : families) {
    family.lower = [&, lower = family.lower](const SegmentFacts& facts, const Schedule& schedule) {
      if (std::this_thread::get_id() != caller) {
        helper_began.set_value();
        throw_error({.message = "a defect"});
      }
      began.wait_for(std::chrono::seconds(10));
      return lower(facts, schedule);
    };
  }
  const auto compiled =
      compile_plan(std::move(planned), *compiler_, cache_, {.families = families, .threads = 2});
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().kind, ErrorKind::kInternalError);
  EXPECT_EQ(compiled.error().message, "a defect");
}

TEST_F(CompilePlanTest, ADeadlineIsATypedError) {
  Plan planned = plan_with([](const Schedule&) { return true; }, 1);
  const auto compiled =
      compile_plan(std::move(planned), *compiler_, cache_,
                   {.families = interruptible_lowering(
                        families_, {.deadline = std::chrono::steady_clock::now()})});
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(compiled.error().message, HasSubstr("time budget ended after 0 lowered kernel(s)"));
}

}  // namespace sinter::compile_plan_test
