#include "fusion_ir/passes/share_common_values.h"

#include <gtest/gtest.h>

#include "fusion_ir/passes/simplify_algebra.h"
#include "fusion_ir/verifier.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::share_common_values_test {

TEST(ShareCommonValues, MergesEqualChains) {
  const Fusion after = applied(share_common_values, fusion_of([](FusionBuilder& b, ValueId x) {
                                 const ValueId left = b.exp(b.neg(x));
                                 return b.mul(left, b.exp(b.neg(x)));
                               }));
  EXPECT_EQ(count_ops(after, "neg"), 1);
  EXPECT_EQ(count_ops(after, "exp"), 1);
}

TEST(ShareCommonValues, CommutativeFunctionsMatchInEitherOrder) {
  const Fusion after = applied(share_common_values, fusion_of([](FusionBuilder& b, ValueId x) {
                                 const ValueId y = b.exp(x);
                                 const ValueId left = b.add(x, y);
                                 return b.mul(left, b.add(y, x));
                               }));
  EXPECT_EQ(count_ops(after, "add"), 1);
  const Fusion kept = applied(share_common_values, fusion_of([](FusionBuilder& b, ValueId x) {
                                const ValueId y = b.exp(x);
                                const ValueId left = b.sub(x, y);
                                return b.mul(left, b.sub(y, x));
                              }));
  EXPECT_EQ(count_ops(kept, "sub"), 2);
}

TEST(ShareCommonValues, AttributesAndTypesTellOpsApart) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) {
    const ValueId a = b.sum(b.sum(x, {0}), {0});
    const ValueId c = b.sum(b.sum(x, {1}), {0});
    const ValueId zeros = b.sub(b.constant(0.0), b.constant(-0.0));
    return b.add(b.add(a, c), zeros);
  });
  EXPECT_EQ(applied(share_common_values, before), before);
}

TEST(ShareCommonValues, EqualInputsStayApart) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4});
  const ValueId y = b.input(DType::kF32, {4});
  b.output(b.add(x, y));
  EXPECT_EQ(applied(share_common_values, b.build()), b.build());
}

TEST(ShareCommonValues, ExternalCallsStayApart) {
  const Fusion before = fusion_of([](FusionBuilder& b, ValueId x) {
    const auto call = [&] { return b.external("f", {x}, {{DType::kF32, {8, 32}}})[0]; };
    const ValueId first = call();
    return b.add(first, call());
  });
  EXPECT_EQ(applied(share_common_values, before), before);
}

TEST(ShareCommonValues, PadsAndConcatenationsAreSharedByTheirAttributes) {
  const Fusion after = applied(share_common_values, fusion_of([](FusionBuilder& b, ValueId x) {
                                 const ValueId a = b.pad(x, {0, 0}, {0, 1}, 1.0);
                                 const ValueId c = b.pad(x, {0, 0}, {0, 1}, 1.0);
                                 const ValueId d = b.pad(x, {0, 0}, {0, 1}, 2.0);
                                 return b.concatenate({a, c, d}, 0);
                               }));
  EXPECT_EQ(count_ops(after, "pad"), 2);
}

TEST(ShareCommonValues, EqualOutputsStayTwoAndSettle) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4});
  b.output(b.exp(x), "a");
  b.output(b.exp(x), "b");
  const Fusion once = applied(share_common_values, b.build());
  EXPECT_EQ(count_ops(once, "exp"), 1);
  EXPECT_EQ(once.outputs.size(), 2U);
  EXPECT_TRUE(verify(once).empty());
  EXPECT_EQ(applied(share_common_values, applied(simplify_algebra, once)), once);
}

}  // namespace sinter::share_common_values_test
