// Plans on devices with other budgets: what a larger one may change, and what rows there are to
// fill it. The tests are of suite PlanTest, as those of plan_test.cpp.

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <span>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/segmentation/offers.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"

namespace sinter::plan_budgets_test {

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
            EXPECT_GT(fastest(*planned).schedule.cluster_size(), 1);
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
        const auto there = static_cast<uint64_t>(planned->kernels.front().facts.space.rows);
        for (const ProposedSchedule& offer : planned->kernels.front().candidates) {
          const Schedule& schedule = offer.schedule;
          const bool is_pipelined = schedule.family == "warp_specialised";
          const bool is_column = schedule.family == "column";
          // Of a warp, or in a pipeline a group of warps; four rows of columns at least.
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
                            .parameters = LoopedParameters{},
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

}  // namespace sinter::plan_budgets_test
