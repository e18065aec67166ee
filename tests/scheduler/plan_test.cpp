#include "scheduler/plan/plan.h"
#include "scheduler/segmentation/offers.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <span>
#include <thread>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/printer.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/sweep.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"

namespace sinter {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;

ExtentValues matrix(int64_t rows, int64_t cols) { return {{"rows", rows}, {"cols", cols}}; }

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
                ->kernels[0]
                .chosen()
                .schedule.cluster_size,
            1);
  for (const int64_t columns : {1 << 18, 1 << 19}) {
    const Plan planned = plan_canned("rms_norm", matrix(8192, columns), "H200").value();
    EXPECT_EQ(kind_of(planned), "multi_wave") << columns;
    EXPECT_GT(planned.kernels[0].chosen().schedule.cluster_size, 1) << columns;
  }
  EXPECT_THAT(plan_canned("rms_norm", matrix(64, 1 << 24), "H200", {.cutting = Cutting::kNeeded}),
              PlansAs("looped"));
}

TEST(PlanTest, BlocksOfAClusterShareFewRowsThatLeaveSmsIdle) {
  for (const int64_t rows : {1, 4, 16, 40}) {
    const Plan planned = plan_canned("softmax", matrix(rows, 1 << 16), "H200").value();
    const Schedule& schedule = planned.kernels[0].chosen().schedule;
    EXPECT_GE(rows * schedule.cluster_size, std::min<int64_t>(4 * rows, 64)) << rows;
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
        EXPECT_FALSE(decisions.back().candidates.empty());
        EXPECT_FALSE(decisions.back().because.empty());
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

TEST(PlanTest, RingsAreTakenAsPredicted) {
  for (const char* fusion : {"layer_norm_backward", "rms_norm_backward_f32", "dyt_backward"}) {
    const auto planned = plan_canned(fusion, matrix(8192, 4096), "H200");
    const auto& candidates = planned.value().kernels.front().candidates;
    ASSERT_EQ(candidates.front().schedule.family, "warp_specialised") << fusion;
    EXPECT_TRUE(std::ranges::is_sorted(candidates, {}, [](const ProposedSchedule& candidate) {
      return candidate.predicted.total_us;
    })) << fusion;
  }
}

struct PlanCase {
  const CannedFusion* canned;
  ExtentValues extents;
  DeviceLimits limits;
};

PlanCase any_plan_case() {
  PlanCase c;
  c.canned = find_canned_fusion(*rc::gen::element("rms_norm", "softmax", "layer_norm_f32",
                                                  "softmax_backward", "row_sum", "swiglu",
                                                  "many_live_tiles"));
  c.extents =
      matrix(*rc::gen::inRange<int64_t>(1, 20'000), 8 * *rc::gen::inRange<int64_t>(1, 4000));
  c.limits = *rc::gen::elementOf(
      std::vector<DeviceLimits>(device_presets().begin(), device_presets().end()));
  c.limits.registers_per_sm = 8192 * *rc::gen::inRange<int64_t>(2, 9);
  c.limits.shared_bytes_per_sm = 1024 * *rc::gen::inRange<int64_t>(32, 229);
  c.limits.shared_bytes_per_block = c.limits.shared_bytes_per_sm - c.limits.shared_bytes_reserved;
  c.limits.l2_bytes = int64_t{1} << *rc::gen::inRange(20, 27);
  c.limits.blocks_per_sm = *rc::gen::inRange<int64_t>(8, 33);
  return c;
}

Plan planned_case(const PlanCase& c) {
  // What a cut is worth is asked only of plans that are slow, so it may come and go with budgets.
  auto planned = plan(c.canned->build(), c.extents, c.limits, {.cutting = Cutting::kNeeded});
  RC_ASSERT(planned.has_value());
  return std::move(*planned);
}

/// The fastest of a plan's candidates: the first one may be slower by a tie.
const ProposedSchedule& fastest(const Plan& planned) {
  return *std::ranges::min_element(
      planned.kernels.front().candidates, {},
      [](const ProposedSchedule& candidate) { return candidate.predicted.total_us; });
}

/// Of all kernels, with the fastest candidate of each.
double fastest_us(const Plan& planned) {
  double us = 0.0;
  for (const KernelPlan* kernel : planned.leading_kernels()) {
    us += std::ranges::min(kernel->candidates, {}, [](const ProposedSchedule& candidate) {
            return candidate.predicted.total_us;
          }).predicted.total_us;
  }
  return us;
}

/// Plans gradients with ever more shared memory on the device: none may be predicted slower than
/// with less.
void expect_no_slower_with_more_shared_memory(std::span<const char* const> devices) {
  for (const char* fusion : {"layer_norm_backward", "rms_norm_backward_f32", "dyt_backward",
                             "softmax_backward_bias", "bias_gradient"}) {
    for (const ExtentValues& extents : {matrix(17, 4096), matrix(2048, 1543), matrix(2048, 8192),
                                        matrix(8192, 4096), matrix(4096, 16384)}) {
      for (const char* device : devices) {
        double with_less_us = std::numeric_limits<double>::infinity();
        for (const int64_t percent : {100, 125, 150, 200, 300, 400}) {
          DeviceLimits limits = *find_device(device);
          constexpr int64_t kUnit = 1024;
          limits.shared_bytes_per_sm = limits.shared_bytes_per_sm * percent / 100 / kUnit * kUnit;
          limits.shared_bytes_per_block = limits.shared_bytes_per_sm - limits.shared_bytes_reserved;
          const double us =
              fastest_us(plan(find_canned_fusion(fusion)->build(), extents, limits).value());
          EXPECT_LE(us, with_less_us * (1.0 + 1e-12))
              << fusion << " " << extents.at("rows") << " x " << extents.at("cols") << " on "
              << device << " with " << percent << " % of its shared memory";
          with_less_us = us;
        }
      }
    }
  }
}

TEST(PlanTest, MoreSharedMemoryNeverPredictsASlowerGradient) {
  expect_no_slower_with_more_shared_memory(std::array{"H200", "B200", "A100", "L4"});
}

bool is_no_slower(const Plan& larger, const Plan& smaller) {
  return fastest(larger).predicted.total_us <= fastest(smaller).predicted.total_us * (1.0 + 1e-12);
}

RC_GTEST_PROP(PlanTest, ALargerBudgetNeverPredictsASlowerPlan, ()) {
  const PlanCase c = any_plan_case();
  PlanCase larger = c;
  const int64_t more_shared = 1024 * *rc::gen::inRange<int64_t>(1, 130);
  switch (*rc::gen::inRange(0, 6)) {
    case 0:
      larger.limits.l2_bytes *= 2;
      break;
    case 1:
      larger.limits.memory_bytes_per_us *= 1.5;
      break;
    case 2:
      larger.limits.clock_mhz *= 1.5;
      break;
    case 3:
      larger.limits.blocks_per_sm += 8;
      break;
    case 4:  // More of it for all blocks of an SM, and for L1.
      larger.limits.shared_bytes_per_sm += more_shared;
      break;
    default:
      larger.limits.shared_bytes_per_sm += more_shared;
      larger.limits.shared_bytes_per_block += more_shared;
      break;
  }
  RC_ASSERT(is_no_slower(planned_case(larger), planned_case(c)));
}

/// True if the fastest candidate loads rows again that it could have kept.
bool reads_rows_again(const Plan& planned) {
  return !planned.kernels.front().facts.kept.empty() && fastest(planned).schedule.kept.empty();
}

/// Rows that L1 does not hold come again from L2 and memory: layer norms of 1024 x 65536 in bf16
/// take 108.6 us in a loop and 100.0 in clusters of two (H100,
/// benchmarks/results/h100_2026-11-26_suite_wide.json; H200: 94.1 and 82.0).
TEST(PlanTest, WideNormsReadTheirRowsOnce) {
  for (const char* device : {"H100", "H200"}) {
    for (const char* name : {"layer_norm", "rms_norm", "softmax", "fused_add_layer_norm"}) {
      for (const int64_t rows : {512, 1024}) {
        for (const int64_t cols : {65536, 131072}) {
          SCOPED_TRACE(fmt::format("{} {} x {} on {}", name, rows, cols, device));
          const auto planned = plan(find_canned_fusion(name)->build(),
                                    {{"rows", rows}, {"cols", cols}}, *find_device(device));
          ASSERT_TRUE(planned);
          ASSERT_EQ(planned->kernels.size(), 1U);
          EXPECT_FALSE(reads_rows_again(*planned));
          if (rows == 1024) {
            EXPECT_GT(fastest(*planned).schedule.cluster_size, 1);
          }
        }
      }
    }
  }
}

/// Nor do rows that do not exist count as loads on their way, and as warps that hide waits.
TEST(PlanTest, BlocksAreOfferedNoMoreRowsThanThereAre) {
  const DeviceLimits limits = *find_device("H100");
  for (const char* name : {"softmax", "rms_norm", "row_sum", "layer_norm_backward", "column_sum"}) {
    for (const int64_t rows : {1, 2, 3, 5}) {
      for (const int64_t cols : {3, 64, 768, 4096}) {
        SCOPED_TRACE(fmt::format("{} {} x {}", name, rows, cols));
        const auto planned =
            plan(find_canned_fusion(name)->build(), {{"rows", rows}, {"cols", cols}}, limits);
        ASSERT_TRUE(planned);
        // A sum over one row is one of rows of one element.
        const auto there = static_cast<uint64_t>(planned->kernels[0].facts.space.rows);
        for (const ProposedSchedule& offer : planned->kernels[0].candidates) {
          const Schedule& schedule = offer.schedule;
          const bool is_pipelined = schedule.family == "warp_specialised";
          const bool is_column = schedule.family == "column";
          // Of a warp, or in a ring a group of warps; four rows of columns at least.
          const int64_t filling = std::max((is_pipelined ? 128 : 32) / schedule.threads_per_row,
                                           int64_t{is_column ? 4 : 1});
          EXPECT_LE(schedule.rows_per_block,
                    std::max(static_cast<int64_t>(std::bit_ceil(there)), filling))
              << summary_of(schedule);
        }
      }
    }
  }
}

/// A softmax of one row of 768 elements in bf16 takes 7.5 us with four threads of a row, beside
/// seven rows of threads that have none, and 4.1 with a warp (H100).
TEST(PlanTest, AWarpSharesALoneRow) {
  for (const char* name : {"softmax", "layer_norm", "rms_norm", "row_sum"}) {
    for (const int64_t cols : {256, 768, 1024}) {
      const auto planned = plan(find_canned_fusion(name)->build(), {{"rows", 1}, {"cols", cols}},
                                *find_device("H100"));
      ASSERT_TRUE(planned);
      EXPECT_GE(fastest(*planned).schedule.threads_per_row, cols / 32) << name << " " << cols;
      EXPECT_GE(fastest(*planned).schedule.threads_per_row, 16) << name << " " << cols;
    }
  }
}

TEST(PlanTest, RowsThatDoNotExistLoadNothing) {
  const DeviceLimits limits = *find_device("H100");
  const auto in_flight = [&](int64_t rows, int64_t rows_per_block) {
    const Schedule schedule{.family = "looped",
                            .threads_per_row = 64,
                            .rows_per_block = rows_per_block,
                            .vector_width = 8};
    const auto planned =
        plan(find_canned_fusion("softmax")->build(), {{"rows", rows}, {"cols", 512}}, limits,
             {.pin = {.schedule = schedule}});
    const ResourceEstimate& estimate = fastest(*planned).estimate;
    return estimate.bytes_in_flight_per_sm / static_cast<double>(estimate.blocks_per_sm);
  };
  EXPECT_GT(in_flight(1, 1), 0.0);
  EXPECT_EQ(in_flight(1, 2), in_flight(1, 1));
  EXPECT_EQ(in_flight(2, 2), 2.0 * in_flight(1, 1));
}

/// Of rows that are read again this is not true: more registers let more blocks in, whose rows
/// press each other out of L1 and L2, and no kernel can ask for fewer blocks.
RC_GTEST_PROP(PlanTest, MoreRegistersNeverPredictASlowerPlanForRowsReadOnce, ()) {
  const PlanCase c = any_plan_case();
  const Plan smaller = planned_case(c);
  RC_PRE(!reads_rows_again(smaller));
  PlanCase larger = c;
  larger.limits.registers_per_sm += 1024 * *rc::gen::inRange<int64_t>(1, 129);
  RC_ASSERT(is_no_slower(planned_case(larger), smaller));
}

/// Whatever becomes of the time, what fitted fits.
RC_GTEST_PROP(PlanTest, LargerBudgetsKeepEveryScheduleLegal, ()) {
  const PlanCase c = any_plan_case();
  PlanCase larger = c;
  if (*rc::gen::arbitrary<bool>()) {
    larger.limits.registers_per_sm *= 2;
  } else {
    larger.limits.shared_bytes_per_sm += 65536;
    larger.limits.shared_bytes_per_block += 65536;
  }
  const FamilySet families = scheduling_families();
  const Plan before = planned_case(c);
  const KernelPlan& kernel = before.kernels.front();
  for (const ProposedSchedule& candidate : kernel.candidates) {
    const auto estimate = find_family(families, candidate.schedule.family)
                              ->estimate(kernel.facts, candidate.schedule, larger.limits);
    RC_ASSERT(estimate.has_value());
    RC_ASSERT(estimate->blocks_per_sm >= candidate.estimate.blocks_per_sm ||
              estimate->spilled_registers < candidate.estimate.spilled_registers);
    RC_ASSERT(estimate->spilled_registers <= candidate.estimate.spilled_registers);
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

TEST(PlanTest, ColumnReductionsArePlanned) {
  EXPECT_THAT(plan_canned("column_sum", matrix(512, 1024), "H200"), PlansAs("column", NoSpill()));
}

// So few leave partial results as long as the rows, in however few blocks.
TEST(PlanTest, FewRowsTooWideForAccumulatorsGetAKernelForTheColumns) {
  for (const char* device : {"H200", "A100", "L4"}) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(16, 1 << 20), device,
                                     {.cutting = Cutting::kNeeded})
                             .value();
    ASSERT_EQ(planned.kernels.size(), 2U) << device;
    EXPECT_EQ(planned.kernels[0].facts.fusion.name, "layer_norm_backward_rows");
    EXPECT_FALSE(planned.kernels[0].facts.has_outer());
    EXPECT_EQ(planned.kernels[1].chosen().schedule.family, "column");
    // The two sums of each row that dx and nothing of the columns needs stay where they are.
    EXPECT_TRUE(planned.workspace.empty());
  }
}

// Its bias gradient adds up what the row's sum has gone into.
TEST(PlanTest, RowValuesThatColumnsNeedPassThroughTheWorkspace) {
  const Plan planned = plan_canned("softmax_backward_bias", matrix(16, 1 << 20), "H200",
                                   {.cutting = Cutting::kNeeded})
                           .value();
  ASSERT_EQ(planned.kernels.size(), 2U);
  ASSERT_FALSE(planned.workspace.empty());
  EXPECT_EQ(planned.workspace[0].bytes, 16 * 4);
  EXPECT_EQ(planned.workspace[0].writer, 0U);
  for (const auto& [mine, in_plan] : planned.kernels[1].in_plan) {
    if (in_plan != planned.workspace[0].value) continue;
    EXPECT_EQ(slot_of(planned, 1, mine, BufferUse::kRead).kind, TensorSlot::Kind::kWorkspace);
  }
}

TEST(PlanTest, ATotalOfElementsIsOneMorePartialResult) {
  const Plan planned = plan_canned("dyt_backward", matrix(8192, 4096), "H200").value();
  ASSERT_EQ(planned.kernels.size(), 2U);
  const int64_t rows = partial_rows(planned.kernels[0].chosen().schedule);
  std::vector<int64_t> bytes;
  for (const WorkspaceTensor& tensor : planned.workspace) bytes.push_back(tensor.bytes);
  EXPECT_THAT(bytes, testing::UnorderedElementsAre(rows * 4, rows * 4096 * 4, rows * 4096 * 4));
  EXPECT_THAT(plan_canned("dyt_backward", matrix(8192, 4096), "H200"),
              RejectedBy("column", HasSubstr("a total takes all")));
  EXPECT_EQ(planned.kernels[1].chosen().schedule.family, "column") << "finishes all three";
}

TEST(PlanTest, TotalsOfRowValuesTakePartInColumnSums) {
  for (const char* family : {"column", "multi_wave"}) {
    const PlanOptions pinned{.pin = {.family = family}};
    const Plan planned =
        plan_canned("weighted_column_mean", matrix(20000, 64), "H200", pinned).value();
    EXPECT_EQ(planned.kernels[0].facts.outer_reductions.size(), 2U) << family;
  }
}

TEST(PlanTest, ColumnsThatAllReduceToTheSameAreRefused) {
  FusionBuilder b("sums_of_a_broadcast");
  const ValueId x = b.input(DType::kF32, {6, 64}, "x");
  const ValueId w = b.input(DType::kF32, {6}, "w");
  b.output(b.sum(x, {0}), "sums");
  b.output(b.sum(b.broadcast(w, {6, 64}, {0}), {0}), "repeated");
  EXPECT_THAT(plan(b.build(), {}, *find_device("H200"), {.pin = {.family = "column"}}),
              RejectedBy("column", HasSubstr("gives every column the same value")));
  // Unless the copies are written out first.
  const auto planned = plan(b.build(), {}, *find_device("H200"));
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_TRUE(planned->is_segmented);
}

TEST(PlanTest, ATotalOfRowLossesIsFinishedByTheLastBlockOrAKernelOfItsOwn) {
  for (const char* device : {"H200", "A100", "L4"}) {
    const Plan planned = plan_canned("row_and_total_loss", matrix(4096, 32000), device).value();
    if (planned.kernels[0].chosen().schedule.finish == Finish::kLastBlock) {
      EXPECT_EQ(planned.kernels.size(), 1U) << device;
      continue;
    }
    ASSERT_EQ(planned.kernels.size(), 2U) << device;
    EXPECT_EQ(planned.kernels[1].facts.space.rows, 1) << "what is left is one row";
  }
}

TEST(PlanTest, BlocksOfAClusterOrTheLastBlockFinishLongColumnSums) {
  const Plan planned = plan_canned("bias_gradient", matrix(8192, 4096), "H200").value();
  EXPECT_EQ(planned.kernels.size(), 1U);
  const auto& candidates = planned.kernels[0].candidates;
  const auto in_clusters = std::ranges::find_if(candidates, [](const ProposedSchedule& candidate) {
    return candidate.schedule.cluster_size > 1 && candidate.schedule.persistent_blocks == 0;
  });
  ASSERT_NE(in_clusters, candidates.end());
  EXPECT_EQ(in_clusters->schedule.family, "column");
  const auto pinned = plan(find_canned_fusion("bias_gradient")->build(), matrix(8192, 4096),
                           *find_device("H200"), {.pin = {.schedule = in_clusters->schedule}});
  ASSERT_TRUE(pinned) << pinned.error().text();
  EXPECT_EQ(pinned->kernels.size(), 1U);
  EXPECT_THAT(pinned->workspace, IsEmpty());
}

TEST(PlanTest, WithoutClustersLongColumnSumsAreDealtToSeveralBlocks) {
  const Plan planned = plan_canned("bias_gradient", matrix(8192, 4096), "A100").value();
  const Schedule& schedule = planned.kernels[0].chosen().schedule;
  EXPECT_EQ(schedule.family, "column");
  EXPECT_GT(schedule.persistent_blocks, 1);
  EXPECT_EQ(planned.kernels.size(), schedule.finish == Finish::kLastBlock ? 1U : 2U);
  EXPECT_EQ(planned.workspace[0].bytes, schedule.persistent_blocks * 4096 * 4);
}

TEST(PlanTest, TheKernelThatFinishesStartsEarlyWhereTheDeviceCan) {
  const auto overlaps = [](const char* device) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(8192, 4096), device).value();
    return std::pair(planned.kernels[0].chosen().schedule.dependent_launch,
                     planned.kernels[1].chosen().schedule.dependent_launch);
  };
  EXPECT_EQ(overlaps("H200"), std::pair(DependentLaunch::kTrigger, DependentLaunch::kWait));
  EXPECT_EQ(overlaps("A100"), std::pair(DependentLaunch::kNone, DependentLaunch::kNone));
}

TEST(PlanTest, InnerAndOuterReductionsShareOnePassAndASecondKernelFinishes) {
  const auto planned = plan_canned("layer_norm_backward", matrix(8192, 4096), "H200");
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_EQ(planned->kernels.size(), 2U);
  const Schedule& schedule = planned->kernels[0].chosen().schedule;
  EXPECT_GT(schedule.persistent_blocks, 0);
  EXPECT_EQ(planned->kernels[1].chosen().schedule.family, "column");
  // A row of f32 for every block of the grid, for dweight and dbias.
  ASSERT_EQ(planned->workspace.size(), 2U);
  EXPECT_EQ(planned->workspace[0].bytes, partial_rows(schedule) * 4096 * 4);
  EXPECT_GT(planned->kernels[0].chosen().predicted.second_stage_us, 0.0);
}

TEST(PlanTest, AKernelEachIsNotPlannedWhereItsBytesTakeLongerThanOnePass) {
  const Plan wide = plan_canned("layer_norm_backward", matrix(16384, 8192), "H200").value();
  EXPECT_EQ(wide.decisions.front().chosen, "one pass");
  EXPECT_EQ(wide.decisions.front().candidates.back().because, "its launches and bytes alone");
  // A few long rows hardly cost bytes, and leave SMs idle: both ways are planned and compared.
  const Plan few = plan_canned("layer_norm_backward", matrix(131, 16384), "H200").value();
  EXPECT_EQ(few.decisions.front().candidates.back().because, "");
}

// Measured on an H200: rings win for norm gradients at all of these, and an A100 has no bulk
// copies.
TEST(PlanTest, NormGradientsSpecialiseWarpsWhereTheDeviceCan) {
  for (const auto& extents : {matrix(16384, 2048), matrix(8192, 4096), matrix(16384, 8192)}) {
    const Plan h200 = plan_canned("layer_norm_backward", extents, "H200").value();
    EXPECT_EQ(h200.kernels[0].chosen().schedule.family, "warp_specialised");
    const Plan a100 = plan_canned("layer_norm_backward", extents, "A100").value();
    EXPECT_EQ(a100.kernels[0].chosen().schedule.family, "multi_wave");
    EXPECT_THAT(a100.rejections,
                testing::Contains(testing::Field(&Rejection::rule, HasSubstr("no bulk copies"))));
  }
}

// A ring's group takes one row of 64 bytes at a time, and waits for each.
TEST(PlanTest, GradientsOfNarrowRowsGoInBlocksOfManyRows) {
  for (const DeviceLimits& device : device_presets()) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(16384, 32), device.name).value();
    EXPECT_EQ(kind_of(planned), "multi_wave") << device.name;
    EXPECT_GE(planned.kernels[0].chosen().schedule.rows_per_block, 8) << device.name;
  }
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
TEST(PlanTest, SqueezedRegistersMatterWhereMemoryDecides) {
  const auto first = [](double launch_us, int64_t wanted = 70) {
    const auto candidate = [&](int64_t registers, double memory_us) {
      ProposedSchedule out;
      out.schedule.family = "multi_wave";
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

// One pass takes a second kernel as well, and so few rows are soon read again.
TEST(PlanTest, GradientsOfFewWideRowsRunRowsAndColumnsApart) {
  for (const DeviceLimits& device : device_presets()) {
    const Plan planned =
        plan_canned("layer_norm_backward", matrix(120, 16384), device.name).value();
    EXPECT_THAT(kind_of(planned), AnyOf("multi_wave + column", "looped + column")) << device.name;
    EXPECT_EQ(planned.decisions.front().chosen, "a kernel each") << device.name;
  }
}

// Its column sums are the row itself.
TEST(PlanTest, AGradientOfOneRowIsOneKernel) {
  for (const DeviceLimits& device : device_presets()) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(1, 4096), device.name).value();
    ASSERT_EQ(planned.kernels.size(), 1U) << device.name;
    EXPECT_THAT(planned.kernels[0].chosen().schedule.family, AnyOf("multi_wave", "looped"))
        << device.name;
    EXPECT_EQ(planned.kernels[0].chosen().schedule.persistent_blocks, 0) << device.name;
    EXPECT_THAT(planned.workspace, IsEmpty()) << device.name;
  }
}

TEST(PlanTest, RowsThatBulkCopiesCannotTakeAreRefusedWithAReason) {
  const Plan odd = plan_canned("layer_norm_backward", matrix(4096, 1543), "H200").value();
  EXPECT_EQ(odd.kernels[0].chosen().schedule.family, "multi_wave");
  EXPECT_THAT(odd.rejections, testing::Contains(testing::Field(
                                  &Rejection::rule, HasSubstr("whole, aligned 16 bytes"))));
}

TEST(PlanTest, AnotherGridGetsAnotherFinish) {
  Plan planned = plan_canned("rms_norm_backward", matrix(512, 1024), "H200").value();
  Schedule other = planned.kernels[0].chosen().schedule;
  other.persistent_blocks = 3;
  ASSERT_TRUE(plan_finish(planned, 0, other, scheduling_families()));
  ASSERT_EQ(planned.kernels.size(), 2U);
  EXPECT_EQ(planned.workspace[0].bytes, 3 * 1024 * 4);
  EXPECT_EQ(planned.kernels[1].facts.space.rows, 3);
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

}  // namespace
}  // namespace sinter
