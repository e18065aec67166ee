#include "scheduler/analysis/segment_facts.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "scheduler/analysis/kept_value.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"

namespace sinter::segment_facts_test {

using testing::ElementsAre;
using testing::IsEmpty;

SegmentFacts canned_facts(std::string_view name, int64_t rows = 64, int64_t cols = 1024) {
  return facts_of(find_canned_fusion(name)->build(), {{"rows", rows}, {"cols", cols}});
}

TEST(SegmentFactsTest, LevelsCountTheReductionsAValueWaitsFor) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4, 8}, "x");
  const ValueId sum = b.named(b.sum(x, {1}), "sum");
  const ValueId centered = b.named(b.sub(x, b.broadcast_over(sum, x, {1})), "centered");
  const ValueId top = b.named(b.amax(centered, {1}), "top");
  b.output(b.mul(centered, b.broadcast_over(top, x, {1})), "y");
  const SegmentFacts facts = facts_of(b.build());
  const auto level = [&](const char* name) { return facts.level[named_value(facts.fusion, name)]; };
  EXPECT_EQ(level("x"), 0);
  EXPECT_EQ(level("sum"), 1);
  EXPECT_EQ(level("centered"), 1);
  EXPECT_EQ(level("top"), 2);
  EXPECT_EQ(level("y"), 2);
  EXPECT_EQ(facts.last_stage, 2);
  EXPECT_EQ(facts.reduction_count, 2);
}

TEST(SegmentFactsTest, BytesCountEveryTensorOnce) {
  const SegmentFacts facts = canned_facts("layer_norm", 16, 32);
  EXPECT_EQ(facts.bytes_read, (16 * 32 + 32 + 32) * 2);
  EXPECT_EQ(facts.bytes_written, 16 * 32 * 2 + 16 * 4 + 16 * 4);
  EXPECT_EQ(facts.widest_tile_bytes, 2);
  EXPECT_EQ(facts.narrowest_tile_bytes, 2);
}

TEST(SegmentFactsTest, RmsNormKeepsTheSixteenBitInput) {
  const SegmentFacts facts = canned_facts("rms_norm");
  EXPECT_THAT(facts.kept, ElementsAre(named_value(facts.fusion, "x")));
  EXPECT_EQ(facts.kept_bytes_per_column, 2);
}

TEST(SegmentFactsTest, ResidualAddInF32KeepsTheSum) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {64, 1024}, "x");
  const ValueId residual = b.input(DType::kF32, {64, 1024}, "residual");
  const ValueId h = b.named(residual_add(b, x, residual), "h");
  b.output(rms_norm(b, h).y, "y");
  const SegmentFacts facts = facts_of(b.build());
  EXPECT_THAT(facts.kept, ElementsAre(named_value(facts.fusion, "h")));
  EXPECT_EQ(facts.kept_bytes_per_column, 4) << "both addends would be 8";
}

TEST(SegmentFactsTest, CostlyValuesAreKeptRatherThanComputedAgain) {
  // log1p costs 18 instructions, 9 bytes at half a byte each: keeping 4 bytes is cheaper than
  // keeping the 2-byte input and computing again. A cast costs half a byte and is repeated.
  FusionBuilder b;
  const ValueId x = b.input(DType::kBF16, {64, 1024}, "x");
  const ValueId y = b.named(b.pointwise(PointwiseFn::kLog1p, {b.cast(x, DType::kF32)}), "y");
  b.output(b.sub(y, b.broadcast_over(b.sum(y, {1}), y, {1})), "z");
  const SegmentFacts facts = facts_of(b.build());
  EXPECT_THAT(facts.kept, ElementsAre(named_value(facts.fusion, "y")));
}

TEST(SegmentFactsTest, NothingIsKeptWithoutASecondStage) {
  EXPECT_THAT(canned_facts("row_sum").kept, IsEmpty());
  EXPECT_THAT(canned_facts("swiglu").kept, IsEmpty());
  EXPECT_THAT(canned_facts("cross_entropy").kept, IsEmpty());
}

TEST(SegmentFactsTest, VectorsOverTheColumnsAreNotKept) {
  const SegmentFacts facts = canned_facts("layer_norm");
  for (const ValueId value : facts.kept) EXPECT_TRUE(facts.is_full(value));
}

TEST(SegmentFactsTest, TensorsThatStandStillAlongAnAxisAreNotKept) {
  // The weight varies along groups and channels, but not along batches and pixels.
  const SegmentFacts facts =
      facts_of(find_canned_fusion("group_norm")->build(), {{"batch", 2}, {"pixels", 25}});
  ASSERT_EQ(facts.kept.size(), 1U);
  EXPECT_EQ(facts.space.find_input(facts.kept.front())->tensor, named_value(facts.fusion, "x"));
}

TEST(SegmentFactsTest, OnlineSoftmaxHasTwoStages) {
  const SegmentFacts facts = canned_facts("softmax");
  EXPECT_EQ(facts.last_stage, 1);
  EXPECT_EQ(facts.reduction_count, 1) << "maximum and sum are one reduction";
  EXPECT_THAT(facts.kept, ElementsAre(named_value(facts.fusion, "x")));
}

/// The gate of a gated norm may wait for the stage that needs it; x may not, nor what both make.
TEST(SegmentFactsTest, WhatIsReadOnceAnywayNeedNotBeKept) {
  const auto gated = [](bool in_norm) {
    FusionBuilder b;
    const ValueId x = b.input(DType::kF32, {64, 1024}, "x");
    const ValueId gate = b.input(DType::kF32, {64, 1024}, "gate");
    const ValueId normed = in_norm ? b.named(b.mul(x, gate), "normed") : x;
    const ValueId sum = b.sum(b.mul(normed, normed), {1});
    b.output(b.mul(b.mul(normed, b.broadcast_over(sum, x, {1})), b.named(b.exp(gate), "opened")),
             "y");
    return facts_of(b.build());
  };
  const SegmentFacts late = gated(false);
  EXPECT_THAT(late.kept, ElementsAre(named_value(late.fusion, "x")));
  EXPECT_EQ(late.kept_bytes_per_column, 4);
  const SegmentFacts both = gated(true);
  EXPECT_THAT(both.kept,
              ElementsAre(named_value(both.fusion, "normed"), named_value(both.fusion, "opened")));
  EXPECT_EQ(both.kept_bytes_per_column, 8);
}

// Gradients in f32 keep products of the weight, but multiply with it in every row.
TEST(SegmentFactsTest, PipelinesKeepWeightsThatTheFirstStageReads) {
  const Plan plan =
      plan_canned("layer_norm_backward_f32", {{"rows", 8192}, {"cols", 4096}}, "H200").value();
  const KernelPlan& kernel = plan.kernels.front();
  EXPECT_TRUE(std::ranges::any_of(kernel.chosen().schedule.kept, [&](const KeptValue& kept) {
    return !kernel.facts.space.dependence[kept.value].rows && kept.residency != Residency::kReload;
  }));
}

}  // namespace sinter::segment_facts_test
