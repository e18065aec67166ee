#include "fusion_ir/passes/recognize_logsumexp.h"

#include <gtest/gtest.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/pipeline.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::recognize_logsumexp_test {

int64_t pairs(const Fusion& fusion) { return count_ops(fusion, "logsumexp"); }

TEST(RecognizeLogSumExp, FindsThePairInEveryComposite) {
  const Fusion soft = simplify(fusion_of([](auto& b, ValueId x) { return softmax(b, x); }));
  EXPECT_EQ(pairs(soft), 1);
  EXPECT_EQ(count_ops(soft, "reduce.max") + count_ops(soft, "reduce.sum"), 0);

  const Fusion log_soft =
      simplify(fusion_of([](auto& b, ValueId x) { return log_softmax(b, x); }, DType::kBF16));
  EXPECT_EQ(pairs(log_soft), 1);
  EXPECT_EQ(count_ops(log_soft, "exp"), 0);

  const Fusion lse = simplify(fusion_of([](auto& b, ValueId x) { return logsumexp(b, x); }));
  EXPECT_EQ(pairs(lse), 1);
  EXPECT_EQ(count_ops(lse, "exp") + count_ops(lse, "sub"), 0);
}

TEST(RecognizeLogSumExp, FindsItThroughEqualCastsOfOneInput) {
  const Fusion after = simplify(fusion_of(
      [](FusionBuilder& b, ValueId x) {
        const ValueId max = b.amax(b.cast(x, DType::kF32), {1});
        const ValueId again = b.cast(x, DType::kF32);
        return b.sum(b.exp(b.add(again, b.neg(b.broadcast_over(max, x, {1})))), {1});
      },
      DType::kBF16));
  EXPECT_EQ(pairs(after), 1);
}

TEST(RecognizeLogSumExp, WorksOnLeadingAndSeveralAxes) {
  for (const std::vector<int>& axes : {std::vector{0}, std::vector{0, 1}, std::vector{1, 2}}) {
    const auto make = [&](FusionBuilder& b, ValueId x) { return logsumexp(b, x, axes); };
    const Fusion after = simplify(fusion_of(make, DType::kF32, {4, 8, 16}));
    ASSERT_EQ(pairs(after), 1);
    for (const Op& op : after.ops) {
      if (is_reduction(op.kind)) {
        EXPECT_EQ(reduced_axes(op.kind), axes);
      }
    }
  }
}

TEST(RecognizeLogSumExp, TheMaximumMayHaveOtherReaders) {
  const Fusion after = applied(recognize_logsumexp, fusion_of([](FusionBuilder& b, ValueId x) {
                                 const ValueId max = b.amax(x, {1});
                                 b.output(b.exp(max));
                                 return b.sum(b.exp(b.sub(x, b.broadcast_over(max, x, {1}))), {1});
                               }));
  EXPECT_EQ(pairs(after), 1);
  EXPECT_EQ(count_ops(after, "reduce.max"), 0);
}

TEST(RecognizeLogSumExp, LeavesOtherForms) {
  const auto expect_none = [](const std::function<ValueId(FusionBuilder&, ValueId)>& make) {
    const Fusion before = fusion_of(make, DType::kF32, {8, 8});
    EXPECT_EQ(applied(recognize_logsumexp, before), before);
  };
  // The maximum of something else.
  expect_none([](FusionBuilder& b, ValueId x) {
    const ValueId max = b.amax(b.abs(x), {1});
    return b.sum(b.exp(b.sub(x, b.broadcast_over(max, x, {1}))), {1});
  });
  // Over other axes, though the shapes agree.
  expect_none([](FusionBuilder& b, ValueId x) {
    const ValueId max = b.amax(x, {0});
    return b.sum(b.exp(b.sub(x, b.broadcast_over(max, x, {0}))), {1});
  });
  // Over other axes, and given back along those of the sum.
  expect_none([](FusionBuilder& b, ValueId x) {
    const ValueId max = b.amax(x, {0});
    return b.sum(b.exp(b.sub(x, b.broadcast_over(max, x, {1}))), {1});
  });
  // Given back along the wrong axis.
  expect_none([](FusionBuilder& b, ValueId x) {
    const ValueId max = b.amax(x, {1});
    return b.sum(b.exp(b.sub(x, b.broadcast_over(max, x, {0}))), {1});
  });
  // A maximum that was changed on the way.
  expect_none([](FusionBuilder& b, ValueId x) {
    const ValueId max = b.max(b.amax(x, {1}), b.constant(0.0));
    return b.sum(b.exp(b.sub(x, b.broadcast_over(max, x, {1}))), {1});
  });
  // Base 2, another function.
  expect_none([](FusionBuilder& b, ValueId x) {
    const ValueId shifted = b.sub(x, b.broadcast_over(b.amax(x, {1}), x, {1}));
    return b.sum(b.pointwise(PointwiseFn::kExp2, {shifted}), {1});
  });
  // max - x.
  expect_none([](FusionBuilder& b, ValueId x) {
    const ValueId max = b.amax(x, {1});
    return b.sum(b.exp(b.sub(b.broadcast_over(max, x, {1}), x)), {1});
  });
}

}  // namespace sinter::recognize_logsumexp_test
