#include <gmock/gmock.h>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"

namespace sinter::canned_pipeline_test {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CannedPipeline : public ::testing::TestWithParam<CannedFusion> {
 protected:
  const Fusion fusion_ = GetParam().build();
  const FamilySet families_ = builtin_families();
};

using CannedPlan = CannedPipeline;

TEST_P(CannedPlan, PlansOnEveryDevice) {
  for (const DeviceLimits& limits : device_presets()) {
    for (const ExtentValues& extents : {GetParam().small, GetParam().large}) {
      const auto planned = plan(fusion_, extents, limits, {.families = families_});
      if (runs_in_parts(GetParam())) {
        ASSERT_TRUE(planned) << limits.name << ": " << planned.error().text();
        EXPECT_TRUE(planned->is_segmented);
        EXPECT_GT(planned->kernels.size(), 1U);
        continue;
      }
      ASSERT_TRUE(planned) << limits.name << ": " << planned.error().text();
      // One kernel, and perhaps one that finishes its partial results or takes the columns. The
      // sums of a contraction of logarithms wait for their maxima, in kernels of their own.
      if (planned->is_segmented && !contracts(fusion_)) {
        const auto whole =
            plan(fusion_, extents, limits, {.families = families_, .cutting = Cutting::kNeeded});
        ASSERT_TRUE(whole) << limits.name << ": " << whole.error().text();
        EXPECT_LT(planned->predicted_us(), whole->predicted_us());
        continue;
      }
      ASSERT_LE(planned->kernels.size(), contracts(fusion_) ? 3U : 2U);
      const KernelPlan& kernel = planned->kernels.front();
      const bool finishes = kernel.chosen().schedule.finish == Finish::kLastBlock;
      EXPECT_EQ(planned->workspace.empty(), planned->kernels.size() == 1U && !finishes);
      for (const ProposedSchedule& candidate : kernel.candidates) {
        ASSERT_THAT(verify_schedule(kernel.facts, candidate.schedule, limits, families_), IsEmpty())
            << limits.name << "\n"
            << print(candidate.schedule);
      }
      const Schedule& chosen = kernel.chosen().schedule;
      const auto parsed = parse_schedule(print(chosen));
      ASSERT_TRUE(parsed) << parsed.error().text();
      EXPECT_EQ(*parsed, chosen);
    }
  }
}

TEST_P(CannedPipeline, LowersToVerifiedTextThatParsesBack) {
  for (const char* device : {"A100", "H200", "B200", "RTX PRO 6000"}) {
    for (const ExtentValues& extents : {GetParam().small, GetParam().large}) {
      const auto planned = plan(fusion_, extents, *find_device(device), {.families = families_});
      ASSERT_TRUE(planned) << planned.error().text();
      const KernelPlan& segment = planned->kernels.front();
      for (const Schedule& schedule : chosen_and_best_of_families(segment)) {
        const auto lowered = lower(segment.facts, schedule, families_, {.verify = true});
        ASSERT_TRUE(lowered) << lowered.error().text();
        const kir::Kernel& kernel = lowered->kernel;
        EXPECT_THAT(verify_kernel(kernel, KernelStage::kLowered), IsEmpty());
        EXPECT_EQ(lowered->param_values.size(), kernel.params.size());
        const auto parsed = parse_kernel(print(kernel));
        ASSERT_TRUE(parsed) << parsed.error().text() << "\n" << print(kernel);
        EXPECT_EQ(*parsed, kernel) << print(schedule);
      }
    }
  }
}

TEST_P(CannedPipeline, GivesTheSameTextEveryTime) {
  const auto text = [&] {
    return plan(GetParam().build(), GetParam().large, *find_device("H200"),
                {.families = builtin_families()})
        .and_then([](const Plan& planned) {
          const KernelPlan& kernel = planned.kernels.front();
          return emit(kernel.facts, kernel.chosen().schedule);
        })
        .value();
  };
  const KernelSource first = text();
  EXPECT_THAT(text(), Eq(first));
  EXPECT_THAT(first.text, HasSubstr("__launch_bounds__("));
}

INSTANTIATE_TEST_SUITE_P(Canned, CannedPlan, ::testing::ValuesIn(canned_fusions()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Canned, CannedPipeline, ::testing::ValuesIn(supported_fusions()),
                         name_of_case);

// Problems that differ in rows only share a compiled kernel.
TEST(CannedPipelineRows, AreNoPartOfTheText) {
  const DeviceLimits limits = *find_device("H200");
  int compared = 0;
  for (const CannedFusion& canned : supported_fusions()) {
    const Fusion fusion = canned.build();
    const auto base = plan(fusion, canned.large, limits, {.families = builtin_families()}).value();
    const SegmentFacts& facts = base.kernels.front().facts;
    // A mean over the rows divides by their number.
    const bool counts = std::ranges::any_of(fusion.ops, [&](const Op& op) {
      const auto* extent = std::get_if<ExtentOp>(&op.kind);
      return extent != nullptr &&
             std::ranges::count(extent->extents, Extent(fusion.find_symbol("rows"))) > 0;
    });
    if (counts) continue;
    // The length of parts of rows is in the index arithmetic too.
    if (!base.kernels.front().in_plan.empty()) continue;
    // A contraction walks rows and columns of its result as one axis.
    if (contracts(fusion)) continue;
    // Where there are several kept axes, their sizes are in the index arithmetic.
    if (facts.space.row_dimensions != 1 || !canned.large.contains("rows")) continue;
    const Schedule& schedule = base.kernels.front().chosen().schedule;
    ExtentValues extents = canned.large;
    extents["rows"] += 3;
    const auto more =
        plan(fusion, extents, limits, {.families = builtin_families(), .pin = {schedule}});
    ASSERT_TRUE(more) << more.error().text();
    EXPECT_EQ(emit(more->kernels.front().facts, schedule)->text, emit(facts, schedule)->text);
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

// Heads and tails of misaligned rows come through registers, and are all in flight, as is the rest
// of the row, before the first of them is waited for.
TEST(RowsInSharedMemory, AreInFlightBeforeThePartOfThemInRegistersIsStored) {
  const Fusion fusion = find_canned_fusion("softmax_backward")->build();
  const ExtentValues extents = {{"rows", 64}, {"cols", 1543}};
  const Plan planned =
      plan(fusion, extents, *find_device("H200"), {.families = builtin_families()}).value();
  const SegmentFacts& facts = planned.kernels.front().facts;
  Schedule schedule{.family = "multi_wave",
                    .parameters = MultiWaveParameters{},
                    .threads_per_row = 32,
                    .vector_width = 8,
                    .unroll = 2,
                    .row_access = RowAccess::kUnaligned};
  for (const ValueId value : facts.kept) schedule.kept.push_back({value, Residency::kShared});
  ASSERT_EQ(schedule.kept.size(), 2U);
  const std::string text = emit(facts, schedule).value().text;
  const std::string until_there = text.substr(0, text.find("async_wait"));
  const size_t first_store = until_there.find("store_shared");
  ASSERT_NE(first_store, std::string::npos) << text;
  EXPECT_LT(until_there.rfind("load_global"), first_store);
  EXPECT_LT(until_there.rfind("async_copy<"), first_store);
}

}  // namespace sinter::canned_pipeline_test
