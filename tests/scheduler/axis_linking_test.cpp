#include "scheduler/analysis/axis_linking.h"

#include <gtest/gtest.h>

#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "tests/support/random_fusion.h"

namespace sinter::axis_linking_test {

/// The classes of a value's axes, from the outermost to the innermost.
AxisList classes_of(const LinkedAxes& linked, uint32_t value) {
  return linked.classes.resolve(concatenated(linked.axes[ValueId{value}]));
}

LinkedAxes link_text(std::string_view text) {
  auto fusion = parse_fusion(text);
  SINTER_CHECK(fusion.has_value(), "the text is a fusion");
  auto linked = link_axes(*fusion);
  SINTER_CHECK(linked.has_value(), "the axes can be linked");
  return *std::move(linked);
}

Rejection rejection_of(std::string_view text) {
  auto fusion = parse_fusion(text);
  SINTER_CHECK(fusion.has_value(), "the text is a fusion");
  auto linked = link_axes(*fusion);
  return linked ? Rejection{} : linked.error();
}

TEST(AxisLinking, APermuteKeepsTheClassesInItsOrder) {
  const LinkedAxes linked = link_text(R"(
fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[8, 4] = permute %v0 order(1, 0)
  return %v1
})");
  const AxisList in = classes_of(linked, 0);
  const AxisList out = classes_of(linked, 1);
  ASSERT_EQ(in.size(), 2U);
  EXPECT_EQ(out, (AxisList{in[1], in[0]}));
}

TEST(AxisLinking, AReshapeSplitsTheClassOfItsOperand) {
  const LinkedAxes linked = link_text(R"(
fusion @f {
  %v0 x : f32[32] = input
  %v1 : f32[4, 8] = reshape %v0
  return %v1
})");
  EXPECT_EQ(classes_of(linked, 0), classes_of(linked, 1));
  ASSERT_EQ(classes_of(linked, 0).size(), 2U);
  EXPECT_EQ(linked.classes.size(classes_of(linked, 0)[0]), 4);
  EXPECT_EQ(linked.classes.size(classes_of(linked, 0)[1]), 8);
}

TEST(AxisLinking, AReductionListsTheAxesThatItRemoves) {
  const LinkedAxes linked = link_text(R"(
fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[4] = reduce.sum %v0 over(1)
  return %v1
})");
  ASSERT_EQ(linked.reduced.size(), 1U);
  EXPECT_EQ(linked.reduced[0].first, ValueId{1});
  const AxisList in = classes_of(linked, 0);
  EXPECT_EQ(linked.classes.resolve(linked.reduced[0].second), AxisList{in[1]});
  EXPECT_EQ(classes_of(linked, 1), AxisList{in[0]});
}

// A later reshape splits the axes of all of them.
TEST(AxisLinking, OperandsOfFunctionsShareTheirAxesForGood) {
  const LinkedAxes linked = link_text(R"(
fusion @f {
  %v0 x : f32[32] = input
  %v1 y : f32[32] = input
  %v2 z : f32[4, 8] = input
  %v3 : f32[32] = add %v0, %v1
  %v4 : f32[32] = exp %v3
  %v5 : f32[4, 8] = reshape %v1
  %v6 : f32[4, 8] = mul %v5, %v2
  return %v4, %v6
})");
  for (const uint32_t value : {1U, 3U, 4U}) {
    EXPECT_EQ(linked.axes.representative(ValueId{value}), linked.axes.representative(ValueId{0}));
    EXPECT_EQ(classes_of(linked, value), classes_of(linked, 0));
  }
  EXPECT_EQ(linked.axes.representative(ValueId{6}), linked.axes.representative(ValueId{2}));
  EXPECT_EQ(classes_of(linked, 2), classes_of(linked, 0));
  EXPECT_EQ(classes_of(linked, 0).size(), 2U);
}

// Values that are known to have the same axes are linked no further, whatever links the others.
TEST(AxisLinking, FunctionsOfRandomFusionsHaveTheAxesOfTheirOperands) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Fusion fusion = random_fusion(seed, 16);
    const Fusion bound = specialize(fusion, *bind_extents(fusion, {{"rows", 6}, {"cols", 40}}));
    const auto linked = link_axes(bound);
    if (!linked) continue;
    for (const Op& op : bound.ops) {
      if (!std::holds_alternative<PointwiseOp>(op.kind)) continue;
      const ValueId result = op.results.front();
      for (const ValueId operand : op.operands) {
        if (bound.def_as<ConstantOp>(operand) != nullptr) continue;
        EXPECT_EQ(classes_of(*linked, operand.index), classes_of(*linked, result.index)) << seed;
      }
    }
  }
}

TEST(AxisLinking, OutputsOfOneShapeShareTheirLoops) {
  const LinkedAxes linked = link_text(R"(
fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 y : f32[4, 8] = input
  %v2 : f32[4, 8] = neg %v0
  %v3 : f32[4, 8] = neg %v1
  return %v2, %v3
})");
  EXPECT_EQ(classes_of(linked, 2), classes_of(linked, 3));
}

TEST(AxisLinking, OutputsOfDifferentShapesDoNot) {
  const LinkedAxes linked = link_text(R"(
fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 y : f32[8, 4] = input
  %v2 : f32[4, 8] = neg %v0
  %v3 : f32[8, 4] = neg %v1
  return %v2, %v3
})");
  for (const uint32_t mine : classes_of(linked, 2))
    for (const uint32_t other : classes_of(linked, 3)) EXPECT_NE(mine, other);
}

TEST(AxisLinking, AValueThatMeetsItsTransposeIsRejected) {
  const Rejection rejection = rejection_of(R"(
fusion @f {
  %v0 x : f32[4, 4] = input
  %v1 : f32[4, 4] = permute %v0 order(1, 0)
  %v2 : f32[4, 4] = add %v0, %v1
  return %v2
})");
  EXPECT_EQ(rejection.rule,
            "two axes would have to be walked as one: a value meets its own transpose");
  EXPECT_EQ(rejection.at, ValueId{0});
}

TEST(AxisLinking, AReshapeThatRegroupsUnevenlyIsRejected) {
  const Rejection rejection = rejection_of(R"(
fusion @f {
  %v0 x : f32[4, 9] = input
  %v1 : f32[6, 6] = reshape %v0
  return %v1
})");
  EXPECT_EQ(rejection.rule, "a reshape regroups axes whose sizes do not divide each other");
  EXPECT_EQ(rejection.at, ValueId{1});
}

}  // namespace sinter::axis_linking_test
