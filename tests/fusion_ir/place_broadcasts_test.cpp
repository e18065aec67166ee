#include "fusion_ir/passes/place_broadcasts.h"

#include <gtest/gtest.h>

#include "fusion_ir/passes/remove_dead_values.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::place_broadcasts_test {

TEST(PlaceBroadcasts, AFunctionOfARowStatisticIsComputedPerRow) {
  const Fusion after = applied(place_broadcasts, fusion_of([](FusionBuilder& b, ValueId x) {
                                 const ValueId full = b.broadcast_over(b.sum(x, {1}), x, {1});
                                 return b.mul(x, b.rsqrt(b.add(full, b.constant(1e-5))));
                               }));
  EXPECT_TRUE(structurally_equal(after, fusion_of([](FusionBuilder& b, ValueId x) {
                                   // The constant stands where it stood, before its broadcast.
                                   const ValueId sum = b.sum(x, {1});
                                   const ValueId epsilon = b.constant(1e-5);
                                   const ValueId column = b.broadcast(epsilon, {8}, {});
                                   const ValueId rstd = b.rsqrt(b.add(sum, column));
                                   return b.mul(x, b.broadcast_over(rstd, x, {1}));
                                 })));
}

TEST(PlaceBroadcasts, ScalarsMeetAsScalars) {
  FusionBuilder b;
  const ValueId a = b.input(DType::kF32, {});
  const ValueId c = b.input(DType::kF32, {});
  const ValueId wide = b.broadcast(a, {4, 8}, {});
  b.output(b.mul(wide, c));
  const Fusion after = applied(place_broadcasts, b.build());
  ASSERT_EQ(output_op(after), "broadcast");
  EXPECT_EQ(count_ops(after, "broadcast"), 1);
}

TEST(PlaceBroadcasts, TakesTheLargestCommonSmallShape) {
  FusionBuilder b;
  const ValueId plane = b.input(DType::kF32, {4, 8});
  const ValueId row = b.input(DType::kF32, {8});
  const ValueId wide = b.broadcast(plane, {4, 16, 8}, {0, 2});
  b.output(b.mul(wide, b.broadcast(row, {4, 16, 8}, {2})));
  const Fusion after = applied(place_broadcasts, b.build());
  ASSERT_EQ(output_op(after), "broadcast");
  const ValueId product = after.def_of(after.outputs[0]).operands[0];
  EXPECT_EQ(after.values[product].shape, (Shape{4, 8}));
}

TEST(PlaceBroadcasts, ARowAndAColumnStayFull) {
  FusionBuilder b;
  const ValueId column = b.input(DType::kF32, {4});
  const ValueId row = b.input(DType::kF32, {8});
  const ValueId wide = b.broadcast(column, {4, 8}, {0});
  b.output(b.mul(wide, b.broadcast(row, {4, 8}, {1})));
  EXPECT_EQ(applied(place_broadcasts, b.build()), b.build());
}

TEST(PlaceBroadcasts, ExpandingUnitAxesCountAsRepeats) {
  FusionBuilder b;
  const ValueId column = b.input(DType::kF32, {4, 1});
  b.output(b.exp(b.broadcast(column, {4, 8}, {0, 1})));
  const Fusion after = applied(place_broadcasts, b.build());
  ASSERT_EQ(output_op(after), "broadcast");
  EXPECT_EQ(after.values[after.def_of(after.outputs[0]).operands[0]].shape, (Shape{4, 1}));
}

TEST(PlaceBroadcasts, LeavesFullOperandsAlone) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) {
    return b.sub(x, b.broadcast_over(b.amax(x, {1}), x, {1}));
  });
  EXPECT_EQ(applied(place_broadcasts, before), before);
}

}  // namespace sinter::place_broadcasts_test
