#include "scheduler/planning/planner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "fusion_ir/printer.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/report/sweep.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/segmentation/offers.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"
#include "tests/support/random_graph.h"

namespace sinter::planner_test {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

/// Fixes the family where a test is about another choice.
PlanOptions resident() { return {.pin = {.family = "multi_wave"}}; }

TEST(PlanTest, CostlyRowsStayResident) {
  // Reading again would mean computing again, three stages deep or with a sigmoid per element.
  EXPECT_THAT(plan_canned("softmax_of_layer_norm", matrix(8192, 8192), "H200"),
              PlansAs("multi_wave", Keeps("x"), NoSpill()));
  EXPECT_THAT(plan_canned("gated_rms_norm", matrix(8192, 8192), "H200"),
              PlansAs("multi_wave", KeepsCount(Ge(1U)), NoSpill()));
}

TEST(PlanTest, TheResidentFamilyIsAmongTheBestForRowsThatFit) {
  for (const char* name : {"rms_norm", "layer_norm", "softmax", "softmax_backward"}) {
    EXPECT_THAT(plan_canned(name, matrix(8192, 8192), "H200", resident()),
                PlansAs("multi_wave", KeepsCount(Ge(1U)), NoSpill()));
  }
}

TEST(PlanTest, ReductionsWithoutASecondStageAreLooped) {
  for (const char* name : {"row_sum", "row_argmax", "mean_variance", "cross_entropy"}) {
    const auto planned = plan_canned(name, matrix(4096, 8192), "H200");
    EXPECT_THAT(planned, PlansAs("looped", KeepsCount(0), NoSpill()));
    EXPECT_THAT(planned, RejectedBy("multi_wave", HasSubstr("no value crosses a row barrier")));
    EXPECT_THAT(planned, RejectedBy("pointwise", HasSubstr("value 1, limit 0 reductions"))) << name;
  }
}

TEST(PlanTest, FusionsWithoutReductionsArePointwise) {
  for (const char* name : {"swiglu", "bias_gelu", "copy", "cast_chain"}) {
    const auto planned = plan_canned(name, matrix(8192, 8192), "H200");
    EXPECT_THAT(planned, PlansAs("pointwise", RowsPerBlock(1), KeepsCount(0), NoSpill()));
    EXPECT_THAT(planned, RejectedBy("looped", HasSubstr("the segment reduces nothing")));
  }
}

TEST(PlanTest, RowsBeyondEveryBudgetAreLooped) {
  // 2 MiB a row: 256 batches of 1024 threads, nine times the shared memory.
  const auto planned =
      plan_canned("rms_norm", matrix(64, 1 << 20), "A100", {.cutting = Cutting::kNeeded});
  EXPECT_THAT(planned, PlansAs("looped", KeepsCount(0)));
  EXPECT_THAT(planned, RejectedBy("multi_wave", HasSubstr("limit")));
  // Too few of them for the device are reduced in parts, and read again by a kernel of their own.
  EXPECT_EQ(kind_of(*plan_canned("rms_norm", matrix(64, 1 << 20), "A100")),
            "looped + looped + pointwise");
}

TEST(PlanTest, BlocksOfAClusterKeepRowsThatOneCannot) {
  EXPECT_EQ(plan_canned("rms_norm", matrix(8192, 1 << 15), "H200")
                ->kernels.front()
                .chosen()
                .schedule.cluster_size(),
            1);
  for (const int64_t columns : {1 << 18, 1 << 19}) {
    const Plan planned = plan_canned("rms_norm", matrix(8192, columns), "H200").value();
    EXPECT_EQ(kind_of(planned), "multi_wave") << columns;
    EXPECT_GT(planned.kernels.front().chosen().schedule.cluster_size(), 1) << columns;
  }
  EXPECT_THAT(plan_canned("rms_norm", matrix(64, 1 << 24), "H200", {.cutting = Cutting::kNeeded}),
              PlansAs("looped"));
}

TEST(PlanTest, BlocksOfAClusterShareFewRowsThatLeaveSmsIdle) {
  for (const int64_t rows : {1, 4, 16, 40}) {
    const Plan planned = plan_canned("softmax", matrix(rows, 1 << 16), "H200").value();
    const Schedule& schedule = planned.kernels.front().chosen().schedule;
    EXPECT_GE(rows * schedule.cluster_size(), std::min<int64_t>(4 * rows, 64)) << rows;
  }
}

TEST(PlanTest, ShortRowsShareABlock) {
  EXPECT_THAT(plan_canned("softmax", matrix(1 << 20, 64), "H200", resident()),
              PlansAs("multi_wave", Keeps("x"), ThreadsPerRow(Le(32)), RowsPerBlock(Ge(4))));
}

TEST(PlanTest, SixteenByteVectorsWhereRowsAreAligned) {
  EXPECT_THAT(plan_canned("rms_norm", matrix(8192, 4096), "H200", resident()),
              PlansAs("multi_wave", VectorWidth(8), AccessesRows(RowAccess::kAligned)));
  EXPECT_THAT(plan_canned("rms_norm_f32", matrix(8192, 4096), "H200", resident()),
              PlansAs("multi_wave", VectorWidth(4), AccessesRows(RowAccess::kAligned)));
  EXPECT_THAT(plan_canned("rms_norm", matrix(8192, 4099), "H200", resident()),
              PlansAs("multi_wave", VectorWidth(8), AccessesRows(RowAccess::kUnaligned)));
}

TEST(PlanTest, EveryCannedFusionIsPlannedOrRefusedWithReasonsOnEveryDevice) {
  for (const DeviceLimits& limits : device_presets()) {
    for (const CannedFusion& canned : canned_fusions()) {
      SCOPED_TRACE(canned.name + " on " + limits.name);
      for (const ExtentValues* extents : {&canned.small, &canned.large}) {
        const auto planned = plan(canned.build(), *extents, limits);
        if (!planned) {
          EXPECT_EQ(planned.error().kind, ErrorKind::kUnsupported) << planned.error().text();
          EXPECT_FALSE(planned.error().log.empty());
          EXPECT_FALSE(planned.error().remedy.empty());
          continue;
        }
        const KernelPlan& kernel = planned->kernels.front();
        const double least_us = least_time(kernel.facts, limits);
        for (const ProposedSchedule& candidate : kernel.candidates) {
          EXPECT_GE(candidate.predicted.total_us, least_us) << print(candidate.schedule);
          EXPECT_GE(candidate.estimate.blocks_per_sm, 1);
          EXPECT_GE(candidate.estimate.blocks_per_sm, candidate.schedule.min_blocks_per_sm);
        }
        const std::vector<Decision>& decisions =
            planned->is_segmented ? kernel.decisions : planned->decisions;
        for (const Decision& decision : decisions) EXPECT_FALSE(decision.because.empty());
        const auto chosen =
            std::ranges::find(decisions, "which schedule runs the segment", &Decision::question);
        ASSERT_NE(chosen, decisions.end());
        EXPECT_FALSE(chosen->candidates.empty());
      }
    }
  }
}

std::string text_of_plan(const Result<Plan>& planned) {
  if (!planned) return planned.error().text();
  std::string text = print(planned->fusion);
  for (const KernelPlan& kernel : planned->kernels) {
    for (const ProposedSchedule& candidate : kernel.candidates) {
      text += fmt::format("{}{} {}\n", print(candidate.schedule), candidate.predicted.total_us,
                          candidate.estimate.registers);
    }
  }
  for (const Decision& decision : planned->decisions) {
    text +=
        fmt::format("{}: {} because {}\n", decision.question, decision.chosen, decision.because);
    for (const Candidate& candidate : decision.candidates)
      text += fmt::format("  {}: {}\n", candidate.what, candidate.because);
  }
  for (const Rejection& rejection : planned->rejections) text += text_of(rejection) + "\n";
  return text;
}

TEST(PlanTest, EqualArgumentsGiveEqualPlans) {
  const auto make = [] {
    return text_of_plan(plan_canned("fused_add_layer_norm", matrix(1000, 5000), "A100"));
  };
  const std::string first = make();
  EXPECT_THAT(first, HasSubstr("schedule multi_wave"));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(make(), first);
  std::vector<std::string> from_threads(8);
  std::vector<std::thread> threads;
  for (std::string& text : from_threads) threads.emplace_back([&] { text = make(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(from_threads, testing::Each(first));
}

TEST(PlanTest, TheChosenScheduleIsWithinATieOfTheBest) {
  for (const CannedFusion& canned : canned_fusions()) {
    const auto planned = plan_canned(canned.name, canned.large, "H200");
    if (!planned) {
      EXPECT_EQ(planned.error().kind, ErrorKind::kUnsupported) << planned.error().text();
      continue;
    }
    const auto& candidates = planned->kernels.front().candidates;
    for (const ProposedSchedule& candidate : candidates) {
      EXPECT_LE(candidates.front().predicted.total_us,
                candidate.predicted.total_us * (1.0 + kTieShare))
          << canned.name;
    }
    for (size_t i = 2; i < candidates.size(); ++i) {
      EXPECT_GE(candidates[i].predicted.total_us, candidates[i - 1].predicted.total_us);
    }
  }
}

TEST(PlanTest, PipelinesAreTakenAsPredicted) {
  for (const char* fusion : {"layer_norm_backward", "rms_norm_backward_f32", "dyt_backward"}) {
    const auto planned = plan_canned(fusion, matrix(8192, 4096), "H200");
    const auto& candidates = planned.value().kernels.front().candidates;
    ASSERT_EQ(candidates.front().schedule.family, "warp_specialised") << fusion;
    EXPECT_TRUE(std::ranges::is_sorted(candidates, {}, [](const ProposedSchedule& candidate) {
      return candidate.predicted.total_us;
    })) << fusion;
  }
}

TEST(PlanTest, PinnedFieldsAreHonoured) {
  const auto with = [](const SchedulePin& pin) {
    return plan_canned("rms_norm", matrix(8192, 4096), "H200", {.pin = pin});
  };
  EXPECT_THAT(with({.family = "looped"}), PlansAs("looped"));
  EXPECT_THAT(with({.family = "multi_wave", .threads_per_row = 64}),
              PlansAs("multi_wave", ThreadsPerRow(64)));
  EXPECT_THAT(with({.family = "multi_wave", .residency = Residency::kShared}),
              PlansAs("multi_wave", Keeps("x", Residency::kShared)));
  EXPECT_THAT(with({.family = "looped", .unroll = 4}), PlansAs("looped", Unroll(4)));
}

TEST(PlanTest, PinsThatNothingMeetsAreRefused) {
  const auto refused = plan_canned("rms_norm", matrix(8192, 4096), "H200",
                                   {.pin = {.threads_per_row = 7, .vector_width = 2}});
  EXPECT_THAT(refused, FailsWith(ErrorKind::kResourceExhausted,
                                 HasSubstr("has the pinned threads_per_row 7, vector_width 2")));
}

TEST(PlanTest, WholePinsRunOrAreRefusedWithNumbers) {
  const auto plain = plan_canned("rms_norm", matrix(8192, 4096), "H200");
  ASSERT_TRUE(plain.has_value());
  Schedule schedule = plain->kernels.front().candidates.back().schedule;
  const auto with = [&](const char* device) {
    return plan_canned("rms_norm", matrix(8192, 4096), device, {.pin = {.schedule = schedule}});
  };
  const auto pinned = with("H200");
  ASSERT_TRUE(pinned.has_value());
  EXPECT_EQ(pinned->kernels.front().chosen(), plain->kernels.front().candidates.back())
      << "the same estimate and prediction as when it was proposed";

  schedule.threads_per_row = 2048;
  EXPECT_THAT(with("H200"), FailsWith(ErrorKind::kResourceExhausted,
                                      AllOf(HasSubstr("value 2048"), HasSubstr("limit 1024"))));
  ASSERT_FALSE(with("H200").has_value());
  EXPECT_EQ(with("H200").error().measured, 2048);
  EXPECT_EQ(with("H200").error().limit, 1024);
  EXPECT_THAT(with("H200"), RejectedBy(schedule.family, HasSubstr("power of two")));
  schedule.family = "none";
  EXPECT_THAT(with("H200"), FailsWith(ErrorKind::kInvalidArgument, HasSubstr("'none'")));
}

// Of a column sum, waits decide; of turns whose fastest schedule has more registers than its blocks
// leave, those.
TEST(PlanTest, SaysWhatDecidedBetweenEquals) {
  const auto because = [](const char* fusion, const ExtentValues& extents, const char* said) {
    const KernelPlan kernel = plan_canned(fusion, extents, "H200").value().kernels.front();
    const ProposedSchedule& chosen = kernel.chosen();
    const auto& fastest = *std::ranges::min_element(
        kernel.candidates, {}, [](const ProposedSchedule& p) { return p.predicted.total_us; });
    EXPECT_LT(fastest.predicted.total_us, chosen.predicted.total_us) << fusion;
    EXPECT_THAT(schedule_decision(kernel, {}).because, HasSubstr(said)) << fusion;
    return std::pair(chosen, fastest);
  };
  const auto [sum, faster_sum] = because("bias_gradient", matrix(512, 16384), "wait least wins");
  EXPECT_LT(sum.predicted.block_latency_us, faster_sum.predicted.block_latency_us);
  EXPECT_FALSE(faster_sum.predicted.models_latency);
  const auto [calm, squeezed] =
      because("row_and_total_loss", matrix(8192, 2048), "but would be limited to");
  EXPECT_LE(calm.estimate.registers, calm.estimate.register_cap);
  EXPECT_GT(squeezed.estimate.registers, squeezed.estimate.register_cap);
}

/// Kernels that mostly wait are taken as predicted, others not squeezed where that costs little.
/// What estimates are off by is no squeeze.
TEST(PlanTest, LimitedRegistersMatterWhereMemoryDecides) {
  const auto first = [](double launch_us, int64_t wanted = 70) {
    const auto candidate = [&](int64_t registers, double memory_us) {
      ProposedSchedule out;
      out.schedule.family = "multi_wave";
      out.schedule.parameters = MultiWaveParameters{};
      out.estimate.registers = registers;
      out.estimate.register_cap = 64;
      out.predicted = {.total_us = launch_us + memory_us,
                       .launch_us = launch_us,
                       .memory_us = memory_us,
                       .models_latency = true};
      return out;
    };
    std::vector<ProposedSchedule> candidates = {candidate(64, 10.05), candidate(wanted, 10.0)};
    rank_schedules(candidates, scheduling_families());
    return candidates.front().estimate.registers;
  };
  const double bound_us = 10.0 * kWaitingShare / (1.0 - kWaitingShare);
  EXPECT_EQ(first(1.05 * bound_us), 70);
  EXPECT_EQ(first(0.95 * bound_us), 64);
  const auto doubtful = static_cast<int64_t>(64.0 * (1.0 + kRegisterDoubt));
  EXPECT_EQ(first(0.95 * bound_us, doubtful), doubtful);
  EXPECT_EQ(first(0.95 * bound_us, doubtful + 1), 64);
}

TEST(PlanTest, OutputsOverUnrelatedAxesDoNotMultiplyTheRows) {
  const Plan planned = plan_canned("two_independent_chains", matrix(64, 64), "H200").value();
  for (const KernelPlan& kernel : planned.kernels) EXPECT_LE(kernel.facts.space.rows, 64);
  EXPECT_THAT(plan_canned("two_independent_chains", matrix(64, 64), "H200", {.pin = {.unroll = 1}}),
              FailsWith(ErrorKind::kUnsupported, testing::_))
      << "a pin is for one kernel";
}

TEST(PlanTest, NoFamiliesMeansUnsupported) {
  EXPECT_THAT(plan_canned("swiglu", matrix(8, 8), "H200", {.families = {}}),
              FailsWith(ErrorKind::kUnsupported, HasSubstr("no schedule family")));
}

TEST(PlanTest, FamiliesAreAValueThatCallersReduce) {
  FamilySet families = scheduling_families();
  std::erase_if(families, [](const Family& family) { return family.name == "multi_wave"; });
  EXPECT_THAT(plan_canned("rms_norm", matrix(8192, 4096), "H200", {.families = families}),
              PlansAs("looped"));
}

TEST(PlanTest, ExtentsAreChecked) {
  EXPECT_THAT(plan_canned("rms_norm", {{"rows", 8}}, "H200"),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("cols")));
  EXPECT_THAT(plan_canned("rms_norm", {{"rows", 8}, {"cols", 8}, {"depth", 8}}, "H200"),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("depth")));
  EXPECT_THAT(plan_canned("rms_norm", matrix(-1, 8), "H200"),
              FailsWith(ErrorKind::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(plan_canned("rms_norm", matrix(int64_t{1} << 40, int64_t{1} << 40), "H200"),
              FailsWith(ErrorKind::kInvalidArgument, testing::_));
}

TEST(PlanTest, EmptyTensorsArePlanned) {
  EXPECT_THAT(plan_canned("rms_norm", matrix(0, 128), "H200"),
              testing::Truly([](const Result<Plan>& planned) { return planned.has_value(); }));
  EXPECT_THAT(plan_canned("row_sum", matrix(16, 0), "H200"), PlansAs("looped"));
  EXPECT_THAT(plan_canned("swiglu", matrix(0, 0), "H200"), PlansAs("pointwise"));
}

TEST(PlanTest, BrokenFusionsAreRefusedWithTheirViolations) {
  Fusion fusion = find_canned_fusion("rms_norm")->build();
  fusion.outputs.push_back(ValueId{12345});
  const auto planned = plan(fusion, matrix(8, 8), *find_device("H200"));
  EXPECT_THAT(planned, FailsWith(ErrorKind::kInvalidFusion, HasSubstr("%v12345")));
}

/// Its schedules are those that their text gives back.
TEST(PlanTest, AFamilyFromOutsideWithoutParametersNeedNotSaySo) {
  const FamilySet builtin = scheduling_families();
  Family family = *find_family(builtin, "pointwise");
  family.name = "plain";
  family.propose = [propose = family.propose](const SegmentFacts& facts,
                                              const DeviceLimits& limits) {
    Proposal proposal = propose(facts, limits);
    for (ProposedSchedule& candidate : proposal.candidates) candidate.schedule.family = "plain";
    return proposal;
  };
  const Plan planned =
      plan_canned("bias_gelu", matrix(64, 64), "H200", {.families = {family}}).value();
  const Schedule& chosen = planned.kernels.front().chosen().schedule;
  EXPECT_EQ(chosen.parameters, FamilyParameters(ExternalParameters{}));
  EXPECT_EQ(parse_schedule(print(chosen)).value(), chosen);
}

/// A row norm cut behind its statistic: two kernels.
Plan cut_norm(const char* device) {
  const Fusion fusion = find_canned_fusion("rms_norm")->build();
  const auto ids = fusion.ops.ids();
  const auto sum =
      std::ranges::find_if(ids, [&](OpId id) { return is_reduction(fusion.ops[id].kind); });
  auto plan = sinter::plan(fusion, matrix(4096, 4096), *find_device(device),
                           {.cuts = {{fmt::format("{}", fusion.ops[*sum].results.front())}}});
  EXPECT_TRUE(plan) << plan.error().text();
  return std::move(*plan);
}

TEST(PlanTest, KernelsBehindOthersStartEarlyWhereTheDeviceCan) {
  const auto launches = [](const char* device) {
    std::vector<DependentLaunch> out;
    const Plan planned = cut_norm(device);
    for (const KernelPlan& kernel : planned.kernels)
      out.push_back(kernel.chosen().schedule.dependent_launch);
    return out;
  };
  using enum DependentLaunch;
  EXPECT_EQ(launches("H200"), (std::vector{kNone, kWait}));
  EXPECT_EQ(launches("A100"), (std::vector{kNone, kNone}));
}

TEST(PlanTest, KernelsBehindOthersArePredictedWithoutASecondRamp) {
  const Plan planned = cut_norm("H200");
  const DeviceLimits& limits = planned.limits;
  const FamilySet families = scheduling_families();
  for (const KernelId id : planned.kernels.ids()) {
    const KernelPlan& kernel = planned.kernels[id];
    Schedule schedule = kernel.chosen().schedule;
    schedule.dependent_launch = DependentLaunch::kNone;
    const double alone_us = find_family(families, schedule.family)
                                ->predict(kernel.facts, schedule, kernel.chosen().estimate, limits)
                                .total_us;
    const double saved_us = id == KernelId{0} ? 0.0 : saved_behind_another(limits.cost);
    EXPECT_NEAR(kernel.chosen().predicted.total_us, alone_us - saved_us, 0.02 * alone_us);
  }
}

// What a call leaves on the stream need not be a kernel, and neither is there one before the first.
TEST(PlanTest, OnlyKernelsBehindKernelsStartEarly) {
  int early = 0;
  int behind_calls = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto planned =
        plan(random_graph(seed, {.ops = 16, .calls = true}), {}, *find_device("H200"), {});
    ASSERT_TRUE(planned) << planned.error().text();
    const PlanStep* before = nullptr;
    const auto steps = planned->steps();
    for (const PlanStep& step : steps) {
      const auto* id = std::get_if<KernelId>(&step);
      const bool is_behind = before != nullptr && std::holds_alternative<KernelId>(*before);
      if (id != nullptr && before != nullptr && !is_behind) ++behind_calls;
      before = &step;
      if (id == nullptr || planned->kernels[*id].same_as) continue;
      const bool waits =
          planned->kernels[*id].chosen().schedule.dependent_launch == DependentLaunch::kWait;
      EXPECT_TRUE(!waits || is_behind) << seed;
      early += waits ? 1 : 0;
    }
  }
  EXPECT_GT(early, 10);
  EXPECT_GT(behind_calls, 5);
}

}  // namespace sinter::planner_test
