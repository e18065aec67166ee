#include "runtime/tuning/tune.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "codegen/cuda/emit.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/runtime/tuning/fake_measurer.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/training_layers.h"

namespace sinter::tune_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ExtentValues kMatrix = {{"rows", 4096}, {"cols", 4096}};
constexpr double kUntunedUs = 100.0;

class TuneTest : public ::testing::Test {
 protected:
  Result<TuneResult> run(TuneOptions options = {}) {
    return tune(fusion_, kMatrix, kLimits, {.families = builtin_families()}, measurer_, options);
  }
  TuneResult tuned(const TuneOptions& options = {}) {
    auto result = run(options);
    EXPECT_TRUE(result) << result.error().text();
    return std::move(*result);
  }
  /// The k-th challenger that is measured, from 1 on.
  Schedule challenger(size_t k) {
    FakeMeasurer probe;
    auto result = tune(fusion_, kMatrix, kLimits, {.families = builtin_families()}, probe, {});
    return result.value().kernels.front().measurements.at(k).schedule;
  }
  void takes(const Schedule& schedule, double us) {
    times_.emplace_back(schedule, us);
    measurer_.us = [this](const Schedule& asked, int64_t) {
      for (const auto& [known, time] : times_) {
        if (known == asked) return time;
      }
      return kUntunedUs;
    };
  }

  Fusion fusion_ = find_canned_fusion("rms_norm")->build();
  FakeMeasurer measurer_;
  std::vector<std::pair<Schedule, double>> times_;
};

TEST_F(TuneTest, TheFastestWinsWhereverItIsRanked) {
  takes(challenger(2), 95.0);
  takes(challenger(5), 80.0);
  takes(challenger(7), 90.0);
  const TuneResult result = tuned();
  ASSERT_EQ(result.kernels.size(), 1U);
  const TunedKernel& kernel = result.kernels.front();
  EXPECT_EQ(kernel.winner, 5U);
  EXPECT_DOUBLE_EQ(kernel.tuned_us, 80.0);
  EXPECT_DOUBLE_EQ(kernel.untuned_us, kUntunedUs);
  EXPECT_EQ(kernel.samples, kLeastTuningSamples);
  EXPECT_EQ(kernel.measurements[2].verdict, TuneVerdict::kFaster);
  EXPECT_EQ(kernel.measurements[7].verdict, TuneVerdict::kSlower) << "than the best so far";
  EXPECT_EQ(result.stop, TuneStop::kFinished);
  EXPECT_EQ(result.choices().schedules.front().schedule, print(challenger(5)));
  EXPECT_THAT(measurer_.held, IsEmpty());
  EXPECT_GE(measurer_.announced, kernel.measurements.size());
}

TEST_F(TuneTest, EqualMeasurementsGiveEqualChoices) {
  takes(challenger(3), 90.0);
  const TuneResult first = tuned();
  FakeMeasurer again;
  again.us = measurer_.us;
  const auto second = tune(fusion_, kMatrix, kLimits, {.families = builtin_families()}, again, {});
  ASSERT_TRUE(second);
  EXPECT_EQ(first.choices(), second->choices());
  EXPECT_EQ(first.kernels.front().decision, second->kernels.front().decision);
  EXPECT_DOUBLE_EQ(first.seconds, second->seconds);
}

TEST_F(TuneTest, TheChoiceGoesThroughAPlan) {
  const Schedule best = challenger(4);
  takes(best, 70.0);
  const auto choices = std::make_shared<const TunedChoices>(tuned().choices());
  const auto planned =
      plan(fusion_, kMatrix, kLimits, {.families = builtin_families(), .tuned = choices});
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_EQ(planned->kernels.front().chosen().schedule, best);
}

TEST_F(TuneTest, FasterByLessThanTheNoiseIsNotTaken) {
  takes(challenger(1), kUntunedUs * (1.0 - 0.9 * kNoiseFloor));
  const TuneResult result = tuned();
  EXPECT_EQ(result.kernels.front().winner, 0U);
  EXPECT_EQ(result.kernels.front().measurements[1].verdict, TuneVerdict::kWithinNoise);
  EXPECT_THAT(result.kernels.front().decision.because, HasSubstr("nothing is faster"));

  times_.clear();
  takes(challenger(1), kUntunedUs * (1.0 - 1.1 * kNoiseFloor));
  EXPECT_EQ(tuned().kernels.front().winner, 1U);
}

TEST_F(TuneTest, SamplesThatScatterTakeAWiderLead) {
  const Schedule first = challenger(1);
  // Every other sample is 20 us off: medians differ by 5 us, and that says nothing.
  measurer_.us = [first](const Schedule& schedule, int64_t nth) {
    const double off = nth % 3 == 0 ? -20.0 : nth % 3 == 1 ? 0.0 : 20.0;
    return (schedule == first ? 95.0 : 100.0) + off;
  };
  const TuneResult result = tuned();
  EXPECT_EQ(result.kernels.front().winner, 0U);
  EXPECT_EQ(result.kernels.front().measurements[1].verdict, TuneVerdict::kWithinNoise);
}

TEST_F(TuneTest, AWinThatIsNotConfirmedIsNone) {
  const Schedule lucky = challenger(1);
  measurer_.us = [lucky](const Schedule& schedule, int64_t nth) {
    return schedule == lucky && nth < kLeastTuningSamples ? 50.0 : kUntunedUs;
  };
  const TuneResult result = tuned();
  EXPECT_EQ(result.kernels.front().winner, 0U);
  EXPECT_EQ(result.kernels.front().measurements[1].verdict, TuneVerdict::kNotConfirmed);
}

TEST_F(TuneTest, WrongResultsAreNeverTimedNorChosen) {
  const Schedule wrong = challenger(1);
  takes(wrong, 1.0);
  measurer_.prepared = [wrong](PreparedCandidate& candidate) {
    if (candidate.schedule == wrong) candidate.wrong = "output 0: 3 of 4096 elements outside";
  };
  const TuneResult result = tuned();
  EXPECT_EQ(result.kernels.front().winner, 0U);
  const TuneMeasurement& measurement = result.kernels.front().measurements[1];
  EXPECT_EQ(measurement.verdict, TuneVerdict::kWrongResults);
  EXPECT_EQ(measurement.timed.samples, 0);
  EXPECT_EQ(result.wrong_results(), 1U);
  EXPECT_THAT(result.kernels.front().decision.candidates[1].because,
              HasSubstr("WRONG RESULTS: output 0: 3 of 4096"));
}

TEST_F(TuneTest, AnUntunedChoiceWithWrongResultsLeavesTheSegment) {
  measurer_.prepared = [](PreparedCandidate& candidate) {
    if (candidate.id == 0) candidate.wrong = "output 0: all wrong";
  };
  const TuneResult result = tuned();
  EXPECT_FALSE(result.kernels.front().is_measured());
  EXPECT_EQ(result.wrong_results(), 1U);
  EXPECT_THAT(result.choices().schedules, IsEmpty());
  EXPECT_THAT(result.kernels.front().decision.because, HasSubstr("all wrong"));
}

TEST_F(TuneTest, WhatDoesNotCompileOrSpillsIsLeft) {
  const Schedule broken = challenger(1);
  const Schedule spilling = challenger(2);
  takes(broken, 1.0);
  takes(spilling, 1.0);
  measurer_.prepared = [&](PreparedCandidate& candidate) {
    if (candidate.schedule == broken)
      candidate.failure = Error{.kind = ErrorKind::kDeviceError, .message = "ptxas: no"};
    if (candidate.schedule == spilling) candidate.spill_bytes = 16;
  };
  const TuneResult result = tuned();
  EXPECT_EQ(result.kernels.front().winner, 0U);
  EXPECT_EQ(result.kernels.front().measurements[1].verdict, TuneVerdict::kDoesNotCompile);
  EXPECT_EQ(result.kernels.front().measurements[1].because, "ptxas: no");
  EXPECT_EQ(result.kernels.front().measurements[2].verdict, TuneVerdict::kSpills);
  EXPECT_EQ(result.stop, TuneStop::kFinished);
  EXPECT_THAT(measurer_.held, IsEmpty());
}

TEST_F(TuneTest, TheIncumbentIsWhatTheCompilersReportLedTo) {
  // The first candidate spills, say, and compilation took the next.
  const Schedule second = challenger(1);
  measurer_.prepared = [second](PreparedCandidate& candidate) {
    if (candidate.id == 0) candidate.schedule = second;
  };
  const TuneResult result = tuned();
  const auto& measurements = result.kernels.front().measurements;
  EXPECT_EQ(measurements.front().schedule, second);
  for (size_t i = 1; i < measurements.size(); ++i) EXPECT_NE(measurements[i].schedule, second);
}

TEST_F(TuneTest, ASpentBudgetKeepsTheBestConfirmed) {
  takes(challenger(1), 90.0);
  takes(challenger(4), 50.0);
  // The untuned choice and two challengers; the first of them needs two rotations.
  const double budget = 3 * FakeMeasurer::kPrepareSeconds + 4 * FakeMeasurer::kSampleSeconds;
  const TuneResult result = tuned({.budget_seconds = budget});
  EXPECT_EQ(result.stop, TuneStop::kBudget);
  EXPECT_DOUBLE_EQ(result.seconds, budget);
  const auto& measurements = result.kernels.front().measurements;
  EXPECT_EQ(result.kernels.front().winner, 1U);
  EXPECT_EQ(measurements[2].verdict, TuneVerdict::kSlower);
  EXPECT_EQ(measurements[3].verdict, TuneVerdict::kOverBudget);
  EXPECT_EQ(measurements[4].verdict, TuneVerdict::kOverBudget);
  EXPECT_EQ(measurer_.asked.size(), 3U);
  EXPECT_THAT(measurer_.held, IsEmpty());
}

TEST_F(TuneTest, ABudgetThatEndsBeforeTheConfirmationConfirmsNothing) {
  takes(challenger(1), 50.0);
  const double budget = 2 * FakeMeasurer::kPrepareSeconds + 2 * FakeMeasurer::kSampleSeconds;
  const TuneResult result = tuned({.budget_seconds = budget});
  EXPECT_EQ(result.kernels.front().winner, 0U);
  EXPECT_EQ(result.kernels.front().measurements[1].verdict, TuneVerdict::kNotConfirmed);
}

TEST_F(TuneTest, CancellingKeepsTheBestConfirmed) {
  takes(challenger(2), 90.0);
  takes(challenger(5), 50.0);
  size_t seen = 0;
  const TuneResult result =
      tuned({.progress = [&](const TuneProgress& progress) { seen = progress.candidate; },
             .cancelled = [&] { return seen >= 4; }});
  EXPECT_EQ(result.stop, TuneStop::kCancelled);
  EXPECT_EQ(result.kernels.front().winner, 2U);
  EXPECT_DOUBLE_EQ(result.kernels.front().tuned_us, 90.0);
  EXPECT_EQ(result.choices().schedules.size(), 1U);
  EXPECT_THAT(measurer_.held, IsEmpty());
}

TEST_F(TuneTest, CancelledAtOnceNothingIsMeasured) {
  const TuneResult result = tuned({.cancelled = [] { return true; }});
  EXPECT_EQ(result.stop, TuneStop::kCancelled);
  EXPECT_EQ(measurer_.begins, 0);
  EXPECT_THAT(result.choices().schedules, IsEmpty());
}

TEST_F(TuneTest, ADeviceThatFailsEndsItWithTheBestConfirmed) {
  takes(challenger(1), 90.0);
  measurer_.sampled = [this]() -> Result<void> {
    if (measurer_.rotations < 4) return {};
    return fail({.kind = ErrorKind::kDeviceError, .message = "did not end within 20 seconds"});
  };
  const TuneResult result = tuned();
  EXPECT_EQ(result.stop, TuneStop::kDevice);
  ASSERT_TRUE(result.trouble);
  EXPECT_EQ(result.trouble->message, "did not end within 20 seconds");
  EXPECT_EQ(result.kernels.front().winner, 1U);
  EXPECT_EQ(result.kernels.front().measurements[3].verdict, TuneVerdict::kFailed);
}

TEST_F(TuneTest, ProgressSaysHowFarItIs) {
  takes(challenger(2), 90.0);
  std::vector<TuneProgress> all;
  const TuneResult result =
      tuned({.progress = [&](const TuneProgress& progress) { all.push_back(progress); }});
  const size_t candidates = result.kernels.front().measurements.size();
  ASSERT_EQ(all.size(), candidates);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].candidate, i + 1);
    EXPECT_EQ(all[i].candidates, candidates);
    EXPECT_DOUBLE_EQ(all[i].best_us, i < 2 ? kUntunedUs : 90.0);
    EXPECT_GT(all[i].seconds, i > 0 ? all[i - 1].seconds : 0.0);
  }
}

TEST_F(TuneTest, IsRefusedDuringCapture) {
  measurer_.ready = []() -> Result<void> {
    return fail({.kind = ErrorKind::kInvalidArgument, .message = "a stream is being captured"});
  };
  const auto refused = run();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(measurer_.begins, 0);
}

TEST_F(TuneTest, OptionsAreChecked) {
  EXPECT_THAT(run({.samples = 14}).error().text(), HasSubstr("too few timing samples"));
  EXPECT_THAT(run({.budget_seconds = 0.0}).error().text(), HasSubstr("budget of 0 seconds"));
  EXPECT_FALSE(run({.budget_seconds = std::nan("")}));
}

TEST_F(TuneTest, AGraphThatCannotBeCheckedIsLeft) {
  measurer_.begun = [](const Fusion&) -> Result<void> {
    return fail({.kind = ErrorKind::kUnsupported, .message = "more than the oracle checks"});
  };
  const TuneResult result = tuned();
  EXPECT_EQ(result.stop, TuneStop::kFinished);
  EXPECT_FALSE(result.kernels.front().is_measured());
  EXPECT_THAT(result.kernels.front().decision.because, HasSubstr("more than the oracle checks"));
}

TEST_F(TuneTest, WhatIsPinnedWholeHasNoChallengers) {
  const Schedule pinned = challenger(1);
  const auto result =
      tune(fusion_, kMatrix, kLimits, {.families = builtin_families(), .pin = {.schedule = pinned}},
           measurer_);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->kernels.front().measurements.size(), 1U);
  EXPECT_EQ(result->kernels.front().measurements.front().schedule, pinned);
}

/// A sum and the norm of it, with the sum through memory: a kernel each.
class TuneSegmentsTest : public ::testing::Test {
 protected:
  TuneSegmentsTest() {
    const auto planned = plan(fusion_, kSizes, kLimits, options_);
    EXPECT_TRUE(planned) << planned.error().text();
    for (const KernelPlan* kernel : planned->leading_kernels()) kinds_ += kernel->same_as ? 0U : 1U;
  }

  const ExtentValues kSizes = {{"rows", 4096}, {"cols", 4096}};
  Fusion fusion_ = find_canned_fusion("residual_rms_norm")->build();
  PlanOptions options_{.families = builtin_families(), .cuts = {{"h"}}};
  size_t kinds_ = 0;
  FakeMeasurer measurer_;
};

TEST_F(TuneSegmentsTest, EachIsTunedOnItsOwnAndTheChoicesFitThePlan) {
  ASSERT_GE(kinds_, 2U);
  std::map<std::string, int> graphs;
  measurer_.begun = [&](const Fusion& fusion) {
    ++graphs[fmt::format("{:x}", structural_hash(fusion))];
    return Result<void>();
  };
  const auto result = tune(fusion_, kSizes, kLimits, options_, measurer_);
  ASSERT_TRUE(result) << result.error().text();
  ASSERT_EQ(result->kernels.size(), kinds_);
  EXPECT_EQ(graphs.size(), kinds_);
  PlanOptions with = options_;
  with.tuned = std::make_shared<const TunedChoices>(result->choices());
  const auto planned = plan(fusion_, kSizes, kLimits, with);
  ASSERT_TRUE(planned) << planned.error().text();
  for (const KernelPlan* kernel : planned->leading_kernels())
    EXPECT_TRUE(kernel->is_required || kernel->same_as);
}

TEST_F(TuneSegmentsTest, TheLongestComesFirstAndNoneEatsTheBudgetOfTheOthers) {
  ASSERT_GE(kinds_, 2U);
  const auto result = tune(fusion_, kSizes, kLimits, options_, measurer_, {.budget_seconds = 10.0});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->stop, TuneStop::kBudget);
  double last = std::numeric_limits<double>::infinity();
  for (const TunedKernel& kernel : result->kernels) {
    EXPECT_TRUE(kernel.is_measured());
    const double us = result->plan.kernels[kernel.segment].chosen().predicted.total_us;
    EXPECT_LE(us, last);
    last = us;
  }
}

/// Every segment of a plan is a plan of its own under each of its candidates, and the plan takes
/// whichever wins.
void expect_all_measured(const Fusion& fusion, const ExtentValues& sizes) {
  SCOPED_TRACE(fusion.name);
  FakeMeasurer measurer;
  measurer.us = [](const Schedule& schedule, int64_t) {
    return 100.0 + static_cast<double>(hash_of(schedule) % 50);
  };
  const auto result = tune(fusion, sizes, kLimits, {.families = builtin_families()}, measurer,
                           {.top = 4, .budget_seconds = 1e6});
  ASSERT_TRUE(result) << result.error().text();
  for (const TunedKernel& kernel : result->kernels) {
    EXPECT_TRUE(kernel.is_measured()) << kernel.decision.because;
    for (const TuneMeasurement& measurement : kernel.measurements) {
      EXPECT_NE(measurement.verdict, TuneVerdict::kDoesNotCompile) << measurement.because;
      EXPECT_GT(measurement.timed.samples, 0) << text_of(measurement.verdict);
    }
  }
  EXPECT_EQ(measurer.begins, static_cast<int>(result->kernels.size()));

  const auto tuned = plan(fusion, sizes, kLimits,
                          {.families = builtin_families(),
                           .tuned = std::make_shared<const TunedChoices>(result->choices())});
  ASSERT_TRUE(tuned) << tuned.error().text();
  const auto leading = tuned->leading_kernels();
  ASSERT_EQ(leading.size(), result->plan.leading_kernels().size());
  for (const KernelPlan* kernel : leading) {
    const uint64_t graph = structural_hash(kernel->facts.fusion);
    const auto measured = std::ranges::find(result->kernels, graph, &TunedKernel::graph);
    ASSERT_NE(measured, result->kernels.end());
    EXPECT_EQ(kernel->chosen().schedule, measured->measurements[measured->winner].schedule);
  }
}

TEST(TuneAllTest, EveryCannedFusionsSegmentsCanBeMeasured) {
  for (const CannedFusion& canned : canned_fusions())
    expect_all_measured(canned.build(), canned.large);
}

TEST(TuneAllTest, SegmentsOfLayersCanBeMeasured) {
  for (const Fusion& layer : {llama_layer_forward(), llama_layer_backward(), gpt2_layer_forward(),
                              gpt2_layer_backward(), bert_layer_forward(), bert_layer_backward()})
    expect_all_measured(layer, {{"tokens", 512}});
}

}  // namespace sinter::tune_test
