#include "scheduler/analysis/segment_facts.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "fusion_ir/composites.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/families/schedule_verifier.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"
#include "tests/support/random_fusion.h"

namespace sinter::segment_facts_test {

using testing::ElementsAre;
using testing::IsEmpty;

SegmentFacts canned_facts(std::string_view name, int64_t rows = 64, int64_t cols = 1024) {
  return facts_of(find_canned_fusion(name)->build(), {{"rows", rows}, {"cols", cols}});
}

std::vector<KeptValue> all_in(Residency residency, const std::vector<ValueId>& values) {
  std::vector<KeptValue> out;
  for (const ValueId value : values) out.push_back({value, residency});
  return out;
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

TEST(SegmentFactsTest, StagesLoadReduceAndStore) {
  const SegmentFacts facts = canned_facts("rms_norm");
  const ValueId x = named_value(facts.fusion, "x");
  const StageList kept = distribute(facts, {{x, Residency::kRegister}});
  ASSERT_EQ(kept.stages.size(), 2);
  EXPECT_THAT(kept.stages[0].loads, ElementsAre(x));
  EXPECT_THAT(kept.stages[0].kept, ElementsAre(x));
  EXPECT_EQ(kept.stages[0].reductions.size(), 1);
  EXPECT_THAT(kept.stages[0].outputs, IsEmpty());
  EXPECT_FALSE(kept.stages[0].row_values.empty()) << "rstd follows the reduction";
  EXPECT_EQ(kept.stages[1].loads.size(), 1) << "the weight";
  EXPECT_THAT(kept.stages[1].outputs, ElementsAre(0));
  EXPECT_GT(kept.stages[1].issue_slots, 0.0);

  const StageList reloaded = distribute(facts, {{x, Residency::kReload}});
  EXPECT_THAT(reloaded.stages[0].kept, IsEmpty());
  EXPECT_THAT(reloaded.stages[1].loads, testing::Contains(x));
  EXPECT_EQ(reloaded, distribute(facts, {}));
}

/// A label's pick is on its way while threads combine: before the row, it would have all loads wait
/// for the label. Where elements, an output or a total need it, it stays in front.
TEST(SegmentFactsTest, PicksForWhatFollowsTheReductionsComeBehindTheRow) {
  enum class Needs { kLoss, kElements, kOutput, kTotal };
  for (const Needs needs : {Needs::kLoss, Needs::kElements, Needs::kOutput, Needs::kTotal}) {
    FusionBuilder b;
    const ValueId logits = b.input(DType::kBF16, {64, 1024}, "logits");
    const ValueId labels = b.input(DType::kI64, {64}, "labels");
    const ValueId picked = b.named(b.cast(b.take(logits, labels, 1), DType::kF32), "picked");
    ValueId x = b.cast(logits, DType::kF32);
    if (needs == Needs::kElements) x = b.sub(x, b.broadcast_over(picked, x, {1}));
    b.output(b.sub(b.log(b.sum(b.exp(x), {1})), picked), "loss");
    if (needs == Needs::kOutput) b.output(b.neg(picked), "negated");
    if (needs == Needs::kTotal) b.output(b.sum(picked, {0}), "total");
    const SegmentFacts facts = facts_of(b.build());
    const StageList list = distribute(facts, {});
    const ValueId taken = facts.fusion.def_of(named_value(facts.fusion, "picked")).operands[0];
    const ValueId label = named_value(facts.fusion, "labels");
    EXPECT_THAT(list.row_values, testing::Contains(label));
    if (needs == Needs::kLoss) {
      EXPECT_THAT(list.stages[0].gathered, ElementsAre(taken, named_value(facts.fusion, "picked")));
      EXPECT_THAT(list.row_values, testing::Not(testing::Contains(taken)));
    } else {
      EXPECT_THAT(list.stages[0].gathered, IsEmpty()) << static_cast<int>(needs);
      EXPECT_THAT(list.row_values, testing::Contains(taken));
    }
  }
}

TEST(SegmentFactsTest, KeepingAValueSavesItsInstructions) {
  const SegmentFacts facts = canned_facts("gated_rms_norm");
  const StageList kept = distribute(facts, all_in(Residency::kShared, facts.kept));
  const StageList again = distribute(facts, {});
  ASSERT_FALSE(facts.kept.empty());
  EXPECT_LT(kept.stages[1].issue_slots, again.stages[1].issue_slots);
  EXPECT_LT(kept.stages[1].loads.size(), again.stages[1].loads.size());
  EXPECT_EQ(kept.stages[0].issue_slots, again.stages[0].issue_slots);
}

TEST(SegmentFactsTest, ProductsThatAreAddedTakeNoInstruction) {
  const auto fused = [](auto build, DType type = DType::kF32) {
    FusionBuilder b;
    const ValueId x = b.input(type, {64, 1024});
    b.output(build(b, x, b.input(type, {64, 1024})));
    return distribute(facts_of(b.build(), {}), {}).stages.back().fused_products;
  };
  const auto product = [](FusionBuilder& b, ValueId x, ValueId y) { return b.mul(x, y); };
  EXPECT_EQ(fused(product), 0) << "stored";
  const auto products_sum = [&](FusionBuilder& b, ValueId x, ValueId y) {
    return b.add(product(b, x, y), product(b, x, x));
  };
  EXPECT_EQ(fused(products_sum), 1) << "an addition takes one";
  EXPECT_EQ(fused(products_sum, DType::kF64), 0);
  EXPECT_EQ(fused([&](FusionBuilder& b, ValueId x, ValueId y) {
              const ValueId xy = product(b, x, y);
              return b.sub(b.add(xy, x), b.exp(xy));
            }),
            0)
      << "the exponential needs it";
  EXPECT_EQ(fused([&](FusionBuilder& b, ValueId x, ValueId y) {
              const ValueId log = b.log(x);
              return b.mul(b.sub(x, log), b.sub(y, log));
            }),
            1)
      << "times ln(2), in both";
  EXPECT_EQ(
      fused([&](FusionBuilder& b, ValueId x, ValueId y) { return b.sum(product(b, x, y), {1}); }),
      1)
      << "accumulated";
}

TEST(SegmentFactsTest, LiveValuesCountTheWidestMoment) {
  EXPECT_GE(distribute(canned_facts("many_live_tiles"), {}).stages.back().live_values, 5);
  EXPECT_LE(distribute(canned_facts("residual_add"), {}).stages.back().live_values, 3);
}

/// The stages of any fusion find all they need, whatever is kept, and keep only what is needed.
void expect_sound(const SegmentFacts& facts) {
  const Schedule schedule{.family = "any"};
  for (const Residency residency : {Residency::kRegister, Residency::kShared, Residency::kReload}) {
    const auto persistent = all_in(residency, facts.kept);
    const auto rejection = check_stages(facts, schedule, distribute(facts, persistent));
    EXPECT_FALSE(rejection.has_value()) << text_of(rejection.value_or(Rejection{}));
  }
  const auto needed = needed_later(facts, all_in(Residency::kRegister, facts.kept));
  for (size_t i = 0; i < needed.size(); ++i) {
    EXPECT_TRUE(needed[i]) << fmt::format("{}", facts.kept[i]);
  }
  // Every per-element output is stored in one stage.
  const StageList list = distribute(facts, {});
  std::vector<int> stored(facts.fusion.outputs.size(), 0);
  for (const Stage& stage : list.stages) {
    for (const size_t output : stage.outputs) ++stored[output];
  }
  for (size_t i = 0; i < stored.size(); ++i) {
    const bool in_a_stage =
        facts.space.output_coverage[i].columns && !facts.is_after_rows(facts.fusion.outputs[i]);
    EXPECT_EQ(stored[i], in_a_stage ? 1 : 0);
  }
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

TEST(SegmentFactsTest, StagesOfCannedFusionsAreSound) {
  for (const CannedFusion& canned : canned_fusions()) {
    SCOPED_TRACE(canned.name);
    const Fusion fusion = canned.build();
    const auto facts = analyse(simplify(specialize(fusion, *bind_extents(fusion, canned.small))));
    if (facts) expect_sound(*facts);
  }
}

RC_GTEST_PROP(SegmentFactsTest, StagesOfRandomFusionsAreSound, (uint64_t seed)) {
  const Fusion fusion = random_fusion(seed, *rc::gen::inRange(1, 24));
  const auto binding = bind_extents(fusion, {{"rows", 6}, {"cols", 40}});
  const auto facts = analyse(simplify(specialize(fusion, *binding)));
  RC_PRE(facts.has_value());
  expect_sound(*facts);
  RC_ASSERT(!testing::Test::HasFailure());
}

// The first stage alone multiplies with the weight, but every row does.
TEST(SegmentFactsTest, RowsThatFollowNeedWhatAllHaveInCommon) {
  const auto needed = [&](const char* fusion) {
    const SegmentFacts facts =
        facts_of(find_canned_fusion(fusion)->build(), {{"rows", 64}, {"cols", 1024}});
    std::vector<KeptValue> kept;
    for (const TensorAccess& access : facts.space.inputs) {
      if (facts.is_tile(access.value) && !facts.is_full(access.value))
        kept.push_back({access.value, Residency::kShared});
    }
    EXPECT_EQ(kept.size(), 1U) << fusion;
    return needed_later(facts, kept);
  };
  EXPECT_THAT(needed("dyt_backward"), testing::ElementsAre(true));
  EXPECT_THAT(needed("rms_norm_backward_f32"), testing::ElementsAre(true));
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
