#include "fusion_ir/passes/hoist_divisions.h"

#include <gtest/gtest.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/pipeline.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::hoist_divisions_test {

TEST(HoistDivisions, SoftmaxDividesOncePerRow) {
  const Fusion after = simplify(fusion_of([](auto& b, ValueId x) { return softmax(b, x); }));
  EXPECT_EQ(count_ops(after, "div"), 0);
  for (const Op& op : after.ops) {
    if (text_of(op.kind) != "reciprocal") continue;
    EXPECT_EQ(after.values[op.results[0]].shape, Shape{8});
  }
  EXPECT_EQ(count_ops(after, "reciprocal"), 1);
}

TEST(HoistDivisions, ARootBecomesItsReciprocal) {
  const Fusion after = applied(hoist_divisions, fusion_of([](FusionBuilder& b, ValueId x) {
                                 const ValueId norm = b.sqrt(b.sum(b.mul(x, x), {1}));
                                 return b.div(x, b.broadcast_over(norm, x, {1}));
                               }));
  EXPECT_EQ(count_ops(after, "div") + count_ops(after, "sqrt"), 0);
  EXPECT_EQ(count_ops(after, "rsqrt"), 1);
}

TEST(HoistDivisions, AConstantBecomesItsReciprocal) {
  const auto divided_by = [](double c) {
    return applied(hoist_divisions, fusion_of([&](FusionBuilder& b, ValueId x) {
                     return b.div(b.cast(x, DType::kF32), b.constant(c));
                   }));
  };
  const Fusion after = divided_by(0.9);
  EXPECT_EQ(count_ops(after, "div"), 0);
  EXPECT_EQ(count_ops(after, "mul"), 1);
  for (const double c : {0.0, 0x1p-127, 0x1p127})
    EXPECT_EQ(count_ops(divided_by(c), "div"), 1) << c << " or its reciprocal is not normal";
}

TEST(HoistDivisions, AScaleWithAFloorDividesOncePerRow) {
  const auto divided_by_scale = [](double factor, double floor, DType type = DType::kF32) {
    return applied(hoist_divisions, fusion_of(
                                        [&](FusionBuilder& b, ValueId x) {
                                          const ValueId scaled = b.mul(b.constant(factor, type),
                                                                       b.amax(b.abs(x), {1}));
                                          const ValueId scale =
                                              b.max(scaled, b.constant(floor, type));
                                          return b.div(x, b.broadcast_over(scale, x, {1}));
                                        },
                                        type));
  };
  const Fusion after = divided_by_scale(1.0 / 448.0, 1e-10);
  EXPECT_EQ(count_ops(after, "div"), 0);
  EXPECT_EQ(count_ops(after, "reciprocal"), 1);
  for (const Op& op : after.ops) {
    if (text_of(op.kind) != "reciprocal") continue;
    EXPECT_EQ(after.values[op.results[0]].shape, Shape{8});
  }
  EXPECT_EQ(count_ops(divided_by_scale(0.25, 0x1p-126), "div"), 0);
  EXPECT_EQ(count_ops(divided_by_scale(0.26, 0x1p-126), "div"), 1) << "above 2^126";
  EXPECT_EQ(count_ops(divided_by_scale(0.25, 0x1p-127), "div"), 1) << "its reciprocal overflows";
  EXPECT_EQ(count_ops(divided_by_scale(0.25, 0.0), "div"), 1) << "its reciprocal overflows";
  EXPECT_EQ(count_ops(divided_by_scale(0.25, 1.0, DType::kF64), "div"), 1) << "f64 has other ends";
}

TEST(HoistDivisions, QuantisationDividesOncePerRow) {
  const Fusion after =
      simplify(fusion_of([](auto& b, ValueId x) { return quantize_per_row(b, x).q; }));
  EXPECT_EQ(count_ops(after, "div"), 0);
  EXPECT_EQ(count_ops(after, "reciprocal"), 1);
}

TEST(HoistDivisions, DivisorsWithoutASafeReciprocalStay) {
  const Fusion by_sum = fusion_of([](FusionBuilder& b, ValueId x) {
    return b.div(x, b.broadcast_over(b.sum(x, {1}), x, {1}));
  });
  EXPECT_EQ(applied(hoist_divisions, by_sum), by_sum);
  const Fusion by_max_of_pair = fusion_of([](FusionBuilder& b, ValueId x) {
    return b.div(x, b.broadcast_over(b.logsumexp_pair(x, {1}).max, x, {1}));
  });
  EXPECT_EQ(applied(hoist_divisions, by_max_of_pair), by_max_of_pair);
}

}  // namespace sinter::hoist_divisions_test
