#include "fusion_ir/passes/place_casts.h"

#include <gtest/gtest.h>

#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::place_casts_test {

using Make = std::function<ValueId(FusionBuilder&, ValueId)>;

void expect_same(const Make& before, const Make& after, DType type) {
  const Fusion placed = applied(place_casts, fusion_of(before, type));
  EXPECT_TRUE(structurally_equal(placed, fusion_of(after, type)))
      << "last op is " << output_op(placed);
}

TEST(PlaceCasts, MovesTheNarrowTypeBeforeAWideningCast) {
  expect_same(
      [](auto& b, ValueId x) {
        return b.permute(b.cast(x, DType::kF32), {1, 0});
      },
      [](auto& b, ValueId x) {
        return b.cast(b.permute(x, {1, 0}), DType::kF32);
      },
      DType::kBF16);
  expect_same(
      [](auto& b, ValueId x) {
        return b.slice(b.cast(x, DType::kF32), {0, 0}, {4, 4});
      },
      [](auto& b, ValueId x) {
        return b.cast(b.slice(x, {0, 0}, {4, 4}), DType::kF32);
      },
      DType::kBF16);
  expect_same([](auto& b, ValueId x) { return b.reshape(b.cast(x, DType::kF32), {256}); },
              [](auto& b, ValueId x) { return b.cast(b.reshape(x, {256}), DType::kF32); },
              DType::kF16);
}

TEST(PlaceCasts, MovesTheNarrowTypeAfterANarrowingCast) {
  expect_same(
      [](auto& b, ValueId x) {
        return b.cast(b.permute(x, {1, 0}), DType::kBF16);
      },
      [](auto& b, ValueId x) {
        return b.permute(b.cast(x, DType::kBF16), {1, 0});
      },
      DType::kF32);
}

TEST(PlaceCasts, AWideMovedValueWithOtherReadersStays) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) {
    const ValueId moved = b.permute(x, {1, 0});
    b.output(b.exp(moved));
    return b.cast(moved, DType::kBF16);
  });
  EXPECT_EQ(applied(place_casts, before), before);
}

TEST(PlaceCasts, CastsTheSmallSideOfABroadcast) {
  expect_same(
      [](auto& b, ValueId x) {
        const ValueId wide = b.broadcast_over(b.amax(x, {1}), x, {1});
        return b.cast(wide, DType::kF64);
      },
      [](auto& b, ValueId x) {
        const ValueId max = b.cast(b.amax(x, {1}), DType::kF64);
        return b.broadcast_over(max, x, {1});
      },
      DType::kF32);
}

TEST(PlaceCasts, PicksLabelsFromTheStoredType) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kBF16, {8, 32});
  const ValueId label = b.input(DType::kI64, {8});
  b.output(b.take(b.cast(x, DType::kF32), label, 1));
  const Fusion after = applied(place_casts, b.build());
  ASSERT_EQ(output_op(after), "cast");
  const ValueId picked = after.def_of(after.outputs[0]).operands[0];
  EXPECT_EQ(after.def_of(picked).operands[0], after.inputs[0]);
}

TEST(PlaceCasts, CastsOfEqualWidthStay) {
  const Fusion before = fusion_of(
      [](FusionBuilder& b, ValueId x) {
        return b.permute(b.cast(x, DType::kF32), {1, 0});
      },
      DType::kI32);
  EXPECT_EQ(applied(place_casts, before), before);
}

}  // namespace sinter::place_casts_test
