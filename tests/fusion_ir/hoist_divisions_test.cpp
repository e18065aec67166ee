#include "fusion_ir/passes/hoist_divisions.h"

#include <gtest/gtest.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/pipeline.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter {
namespace {

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
  const Fusion after = hoist_divisions(fusion_of([](FusionBuilder& b, ValueId x) {
    const ValueId norm = b.sqrt(b.sum(b.mul(x, x), {1}));
    return b.div(x, b.broadcast_over(norm, x, {1}));
  }));
  EXPECT_EQ(count_ops(after, "div") + count_ops(after, "sqrt"), 0);
  EXPECT_EQ(count_ops(after, "rsqrt"), 1);
}

TEST(HoistDivisions, AConstantBecomesItsReciprocal) {
  const auto divided_by = [](double c) {
    return hoist_divisions(fusion_of(
        [&](FusionBuilder& b, ValueId x) { return b.div(b.cast(x, DType::kF32), b.constant(c)); }));
  };
  const Fusion after = divided_by(0.9);
  EXPECT_EQ(count_ops(after, "div"), 0);
  EXPECT_EQ(count_ops(after, "mul"), 1);
  for (const double c : {0.0, 0x1p-127, 0x1p127})
    EXPECT_EQ(count_ops(divided_by(c), "div"), 1) << c << " or its reciprocal is not normal";
}

TEST(HoistDivisions, DivisorsWithoutASafeReciprocalStay) {
  const Fusion by_sum = fusion_of([](FusionBuilder& b, ValueId x) {
    return b.div(x, b.broadcast_over(b.sum(x, {1}), x, {1}));
  });
  EXPECT_EQ(hoist_divisions(by_sum), by_sum);
  const Fusion by_max_of_pair = fusion_of([](FusionBuilder& b, ValueId x) {
    return b.div(x, b.broadcast_over(b.logsumexp_pair(x, {1}).max, x, {1}));
  });
  EXPECT_EQ(hoist_divisions(by_max_of_pair), by_max_of_pair);
}

}  // namespace
}  // namespace sinter
