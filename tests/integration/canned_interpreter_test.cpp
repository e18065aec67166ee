#include <gmock/gmock.h>

#include <array>
#include <ctime>

#include "fusion_ir/verifier.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"
#include "tests/integration/canned_case.h"
#include "tests/support/effort.h"

namespace sinter::canned_interpreter_test {

constexpr int64_t kRows = 5;

class CannedInterpreter : public ::testing::TestWithParam<CannedFusion> {
 protected:
  Result<Plan> plan_for(const Fusion& fusion, const ExtentValues& extents,
                        std::string_view device = "H200") const {
    return plan(fusion, extents, *find_device(device), {.families = families_});
  }

  /// Checks the chosen schedule and the best of each family.
  void check(const Fusion& fusion, const ExtentValues& extents) const {
    const auto planned = plan_for(fusion, extents);
    ASSERT_TRUE(planned) << planned.error().text();
    for (const Schedule& schedule : chosen_and_best_of_families(planned->kernels.front()))
      EXPECT_TRUE(computes_the_oracle(fusion, *planned, schedule));
  }

  const Fusion fusion_ = GetParam().build();
  const FamilySet families_ = builtin_families();
};

TEST_P(CannedInterpreter, IsRightAtAwkwardWidths) {
  if (!has_width(GetParam())) {
    check(fusion_, GetParam().small);
    return;
  }
  for (const int64_t columns : {1, 3, 31, 32, 33, 127, 1000, 1023, 1025, 4097})
    check(fusion_, extents_of_width(GetParam(), columns, kRows));
}

// No family is tried at schedules it likes only: any legal one must be right. The devices differ in
// what is legal.
TEST_P(CannedInterpreter, IsRightForRandomSchedules) {
  constexpr uint64_t kSeeds = 8;
  // An element of a contraction takes as many steps of the interpreter as the contracted axis has.
  const std::array<int64_t, 4> widths = {1000, 257, 96, contracts(fusion_) ? 1025 : 4097};
  uint64_t seed = 0;
  Slice slice(13, std::ssize(GetParam().name));
  for (const char* device : {"H200", "RTX 4090"}) {
    for (const int64_t columns : widths) {
      const auto planned = plan_for(fusion_, extents_of_width(GetParam(), columns, kRows), device);
      ASSERT_TRUE(planned) << planned.error().text();
      const SegmentFacts& facts = planned->kernels.front().facts;
      for (const Family& family : families_) {
        for (uint64_t i = 0; i < kSeeds; ++i) {
          ++seed;
          if (!slice.takes()) continue;
          const auto drawn =
              random_schedule(facts, *find_device(device), families_, seed, family.name);
          if (!drawn) break;  // The family takes no schedule at all for this segment.
          EXPECT_TRUE(computes_the_oracle(fusion_, *planned, drawn->schedule, seed));
        }
      }
    }
  }
}

TEST_P(CannedInterpreter, HandlesZeroExtents) {
  for (const ExtentValues& extents :
       {extents_of_width(GetParam(), 100, 0), extents_of_width(GetParam(), 0, kRows),
        extents_of_width(GetParam(), 0, 0)}) {
    if (const auto bound = bind_extents(fusion_, extents); !bound) {
      EXPECT_EQ(GetParam().name, "slice_rows") << "whose slice ends at row 5";
      EXPECT_EQ(bound.error().kind, ErrorKind::kInvalidArgument);
      continue;
    }
    if (is_mean_of_nothing(GetParam(), extents)) continue;
    check(fusion_, extents);
  }
}

// Every input may lie at any multiple of its element, and rows may be padded.
TEST_P(CannedInterpreter, ReadsMisalignedAndPaddedInputs) {
  for (const bool padded : {false, true}) {
    Fusion fusion = fusion_;
    for (const ValueId input : fusion.inputs) {
      const Value& value = fusion.values[input];
      auto& op = std::get<InputOp>(fusion.ops[value.def].kind);
      op.alignment = padded ? op.alignment : bytes_of(value.type);
      if (!padded || value.shape.size() != 2 || !op.strides.empty()) continue;
      // Odd padding, so that every row has an alignment of its own.
      constexpr int64_t kStride = 1031;
      op.strides = {Extent(kStride), Extent(1)};
    }
    ASSERT_TRUE(verify(fusion).empty());
    for (const int64_t columns : {100, 1000})
      check(fusion, extents_of_width(GetParam(), columns, kRows));
  }
}

INSTANTIATE_TEST_SUITE_P(Canned, CannedInterpreter, ::testing::ValuesIn(supported_fusions()),
                         name_of_case);

/// Wide vocabularies: long rows at an odd width, few of them.
class WideRows : public ::testing::TestWithParam<const char*> {};

TEST_P(WideRows, AreRight) {
  const CannedFusion& canned = *find_canned_fusion(GetParam());
  const Fusion fusion = canned.build();
  const auto planned = plan(fusion, extents_of_width(canned, 50257, 2), *find_device("H200"),
                            {.families = builtin_families()});
  ASSERT_TRUE(planned) << planned.error().text();
  for (const Schedule& schedule : chosen_and_best_of_families(planned->kernels.front()))
    EXPECT_TRUE(computes_the_oracle(fusion, *planned, schedule));
}

INSTANTIATE_TEST_SUITE_P(Canned, WideRows,
                         ::testing::Values("softmax", "layer_norm", "cross_entropy", "row_argmax"));

/// The interpreter's seed orders the warps. Nothing a right kernel does depends on it.
// No block keeps accumulators for so many columns: rows and columns have a kernel each.
TEST(WideGradients, AreRightInTwoKernels) {
  for (const char* name : {"layer_norm_backward", "softmax_backward_bias"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const auto planned = plan(fusion, {{"rows", 3}, {"cols", 65536}}, *find_device("H200"),
                              {.families = builtin_families(), .pin = {.family = "looped"}});
    ASSERT_TRUE(planned) << planned.error().text();
    ASSERT_EQ(planned->kernels.size(), 2U);
    EXPECT_TRUE(computes_the_oracle(fusion, *planned, planned->kernels.front().chosen().schedule));
  }
}

TEST(CannedInterpreterSeeds, GiveTheSameBytes) {
  const CannedFusion& canned = *find_canned_fusion("softmax_of_layer_norm");
  const Fusion fusion = canned.build();
  const auto planned = plan(fusion, extents_of_width(canned, 1023, 3), *find_device("H200"),
                            {.families = builtin_families()})
                           .value();
  const SegmentFacts& facts = planned.kernels.front().facts;
  const auto lowered = lower(facts, planned.kernels.front().chosen().schedule).value();
  const auto inputs = sample_inputs(fusion, planned.binding, 1);
  const auto first = execute_on_host(facts, lowered, inputs, {.seed = 1}).value();
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const auto again = execute_on_host(facts, lowered, inputs, {.seed = seed}).value();
    ASSERT_EQ(again.outputs.size(), first.outputs.size());
    for (size_t i = 0; i < first.outputs.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(again.outputs[i].storage(), first.outputs[i].storage()));
    EXPECT_EQ(again.report.work, first.report.work);
  }
}

#if defined(SINTER_OPTIMISED_LIBRARIES) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
constexpr bool kFullSpeed = true;
#else
constexpr bool kFullSpeed = false;
#endif

/// A check that takes longer than a build is not run. Processor time, so that a busy machine does
/// not count.
TEST(CannedInterpreterSpeed, RunsALayerNormOf64RowsOf4096InUnderTwoSeconds) {
  if (!kFullSpeed) GTEST_SKIP() << "a debug or sanitizer build says nothing about speed";
  const Fusion fusion = find_canned_fusion("layer_norm")->build();
  const auto planned = plan(fusion, {{"rows", 64}, {"cols", 4096}}, *find_device("H200"),
                            {.families = builtin_families()})
                           .value();
  const SegmentFacts& facts = planned.kernels.front().facts;
  const auto inputs = sample_inputs(fusion, planned.binding, 1);
  for (const Schedule& schedule : chosen_and_best_of_families(planned.kernels.front())) {
    const auto lowered = lower(facts, schedule).value();
    const std::clock_t begin = std::clock();
    const auto run = execute_on_host(facts, lowered, inputs);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    ASSERT_TRUE(run) << run.error().text();
    EXPECT_TRUE(run->report.findings.empty());
    EXPECT_LT(seconds, 2.0) << print(schedule);
  }
}

}  // namespace sinter::canned_interpreter_test
