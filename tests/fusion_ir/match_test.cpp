#include "fusion_ir/match.h"

#include <gtest/gtest.h>

#include "tests/fusion_ir/op_count.h"

namespace sinter::match_test {

TEST(Match, SplatsAreSeenThroughBroadcastsOnly) {
  FusionBuilder b;
  const ValueId zero = b.broadcast(b.constant(-0.0), {4, 8}, {});
  const ValueId computed = b.exp(zero);
  b.output(computed);
  const Fusion fusion = b.build();
  EXPECT_TRUE(is_splat_of(fusion, zero, -0.0));
  EXPECT_FALSE(is_splat_of(fusion, zero, 0.0));
  EXPECT_FALSE(splat_constant(fusion, computed).has_value());
}

TEST(Match, OperandsOfAsksForOneFunction) {
  const Fusion fusion = fusion_of([](FusionBuilder& b, ValueId x) { return b.sub(x, b.exp(x)); });
  const ValueId y = fusion.outputs.front();
  EXPECT_TRUE(operands_of(fusion, y, PointwiseFn::kAdd).empty());
  ASSERT_EQ(operands_of(fusion, y, PointwiseFn::kSub).size(), 2U);
  EXPECT_TRUE(operands_of(fusion, fusion.inputs.front(), PointwiseFn::kSub).empty());
}

TEST(Match, BroadcastsOverIsTheInverseOfTheReduction) {
  // A square, so that the shape alone does not tell rows from columns.
  const auto over = [](int axis) {
    return fusion_of(
        [axis](FusionBuilder& b, ValueId x) { return b.broadcast_over(b.amax(x, {1}), x, {axis}); },
        DType::kF32, {8, 8});
  };
  const auto matches = [](const Fusion& fusion) {
    const ValueId y = fusion.outputs.front();
    return broadcasts_over(fusion, y, fusion.def_of(y).operands.front(), std::vector{1});
  };
  EXPECT_TRUE(matches(over(1)));
  EXPECT_FALSE(matches(over(0)));
}

TEST(Match, OnlyABroadcastToTheSameShapeIsACopy) {
  const Fusion copy = fusion_of([](FusionBuilder& b, ValueId x) {
    return b.broadcast(x, {8, 32}, {0, 1});
  });
  EXPECT_TRUE(is_copy(copy, copy.outputs.front()));
  const Fusion wider = fusion_of([](FusionBuilder& b, ValueId x) {
    return b.broadcast(x, {2, 8, 32}, {1, 2});
  });
  EXPECT_FALSE(is_copy(wider, wider.outputs.front()));
}

TEST(Match, CommutativeFunctionsCommute) {
  for (const double a : {-2.5, 0.5, 3.0}) {
    for (const double c : {-1.25, 0.75, 4.0}) {
      for (size_t i = 0; i <= static_cast<size_t>(PointwiseFn::kClamp); ++i) {
        const auto fn = static_cast<PointwiseFn>(i);
        if (!is_commutative(fn)) continue;
        EXPECT_EQ(evaluate(fn, a, c, 1.5), evaluate(fn, c, a, 1.5)) << info_of(fn).text;
      }
    }
  }
  EXPECT_FALSE(is_commutative(PointwiseFn::kSub));
}

TEST(Match, OtherAxesAscend) {
  EXPECT_EQ(other_axes(4, std::vector{2, 0}), (std::vector{1, 3}));
  EXPECT_EQ(all_axes(3), (std::vector{0, 1, 2}));
}

}  // namespace sinter::match_test
