// Each stage of a segment finds what it needs, keeps what later stages need and nothing else, and
// does each piece of work once.

#include "scheduler/analysis/stages.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/families/schedule_verifier.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/random_fusion.h"

namespace sinter::stages_test {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<KeptValue> all_in(Residency residency, const std::vector<ValueId>& values) {
  std::vector<KeptValue> out;
  for (const ValueId value : values) out.push_back({value, residency});
  return out;
}

TEST(StagesTest, StagesLoadReduceAndStore) {
  const SegmentFacts facts = canned_facts("rms_norm", 64, 1024);
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
TEST(StagesTest, PicksForWhatFollowsTheReductionsComeBehindTheRow) {
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

TEST(StagesTest, KeepingAValueSavesItsInstructions) {
  const SegmentFacts facts = canned_facts("gated_rms_norm", 64, 1024);
  const StageList kept = distribute(facts, all_in(Residency::kShared, facts.kept));
  const StageList again = distribute(facts, {});
  ASSERT_FALSE(facts.kept.empty());
  EXPECT_LT(kept.stages[1].issue_slots, again.stages[1].issue_slots);
  EXPECT_LT(kept.stages[1].loads.size(), again.stages[1].loads.size());
  EXPECT_EQ(kept.stages[0].issue_slots, again.stages[0].issue_slots);
}

TEST(StagesTest, ProductsThatAreAddedTakeNoInstruction) {
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

TEST(StagesTest, LiveValuesCountTheWidestMoment) {
  EXPECT_GE(distribute(canned_facts("many_live_tiles", 64, 1024), {}).stages.back().live_values, 5);
  EXPECT_LE(distribute(canned_facts("residual_add", 64, 1024), {}).stages.back().live_values, 3);
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

/// If a kept value is computed from what several stages read, all kept values are.
void expect_read_again(const SegmentFacts& facts) {
  if (facts.has_outer()) return;
  IdMap<ValueId, int> readers(facts.fusion.values.size());
  for (const Stage& stage : distribute(facts, {}).stages) {
    for (const ValueId value : stage.loads) ++readers[value];
  }
  IdMap<ValueId, uint8_t> comes_again(facts.fusion.values.size());
  for (const Op& op : facts.fusion.ops) {
    for (const ValueId result : op.results) {
      const bool follows = std::ranges::any_of(
          op.operands, [&](ValueId operand) { return comes_again[operand] != 0; });
      const bool is_again =
          facts.is_read(result) ? facts.is_full(result) && readers[result] > 1 : follows;
      comes_again[result] = is_again ? 1 : 0;
    }
  }
  const auto is_again = [&](ValueId value) { return comes_again[value] != 0; };
  EXPECT_TRUE(std::ranges::all_of(facts.kept, is_again) ||
              std::ranges::none_of(facts.kept, is_again));
}

TEST(StagesTest, StagesOfCannedFusionsAreSound) {
  for (const CannedFusion& canned : canned_fusions()) {
    SCOPED_TRACE(canned.name);
    const Fusion fusion = canned.build();
    const auto facts = analyse(simplify(specialize(fusion, *bind_extents(fusion, canned.small))));
    if (!facts) continue;
    expect_sound(*facts);
    expect_read_again(*facts);
  }
}

RC_GTEST_PROP(StagesTest, StagesOfRandomFusionsAreSound, (uint64_t seed)) {
  const Fusion fusion = random_fusion(seed, *rc::gen::inRange(1, 24));
  const auto binding = bind_extents(fusion, {{"rows", 6}, {"cols", 40}});
  const auto facts = analyse(simplify(specialize(fusion, *binding)));
  RC_PRE(facts.has_value());
  expect_sound(*facts);
  expect_read_again(*facts);
  RC_ASSERT(!testing::Test::HasFailure());
}

// The first stage alone multiplies with the weight, but every row does.
TEST(StagesTest, RowsThatFollowNeedWhatAllHaveInCommon) {
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

TEST(StagesTest, WithoutReductionsThereIsOneStage) {
  const SegmentFacts facts = facts_of(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 y : f32[4, 8] = exp %v0
  return %v1
})");
  const StageList list = distribute(facts, {});
  ASSERT_EQ(list.stages.size(), 1U);
  EXPECT_THAT(list.stages[0].loads, ElementsAre(named_value(facts.fusion, "x")));
  EXPECT_THAT(list.stages[0].computed, ElementsAre(named_value(facts.fusion, "y")));
  EXPECT_THAT(list.stages[0].outputs, ElementsAre(0U));
  EXPECT_THAT(list.stages[0].reductions, IsEmpty());
  EXPECT_THAT(list.row_values, IsEmpty());
}

/// The sum of a row is stored once per row: no stage stores it for each element.
TEST(StagesTest, OutputsOfRowsAreNotStoredElementByElement) {
  const SegmentFacts facts = facts_of(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[4] = reduce.sum %v0 over(1)
  %v2 s : f32[4] = exp %v1
  %v3 : f32[4, 8] = broadcast %v2 axes(0)
  %v4 y : f32[4, 8] = mul %v0, %v3
  %v5 c : f32[8] = reduce.sum %v4 over(0)
  return %v2, %v4, %v5
})");
  const StageList list = distribute(facts, {});
  ASSERT_EQ(list.stages.size(), 2U);
  EXPECT_THAT(list.stages[0].row_values, testing::Contains(named_value(facts.fusion, "s")));
  EXPECT_THAT(list.stages[0].outputs, IsEmpty());
  EXPECT_THAT(list.stages[0].outer, IsEmpty());
  EXPECT_THAT(list.stages[1].outputs, ElementsAre(1U));
  EXPECT_EQ(list.stages[1].outer.size(), 1U);
  EXPECT_THAT(list.stages[1].reductions, IsEmpty());
}

}  // namespace sinter::stages_test
