#include "fusion_ir/passes/recognize_welford.h"

#include <gtest/gtest.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/pipeline.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::recognize_welford_test {

using Make = std::function<ValueId(FusionBuilder&, ValueId)>;

int64_t welfords(const Make& make, DType type = DType::kF32, const Shape& shape = {8, 24}) {
  return count_ops(simplify(fusion_of(make, type, shape)), "welford");
}

/// sum((x - m)^2) over the rows, with m made of the sum by `center`.
Make deviations(const std::function<ValueId(FusionBuilder&, ValueId sum)>& center) {
  return [center](FusionBuilder& b, ValueId x) {
    const ValueId m = center(b, b.sum(x, {1}));
    const ValueId d = b.sub(x, b.broadcast_over(m, x, {1}));
    return b.sum(b.mul(d, d), {1});
  };
}

TEST(RecognizeWelford, FindsVarianceAndLayerNorm) {
  const auto unbiased = [](auto& b, ValueId x) { return variance(b, x, {-1}, 1.0).variance; };
  EXPECT_EQ(welfords(unbiased), 1);
  const auto norm = [](auto& b, ValueId x) { return layer_norm(b, x).y; };
  EXPECT_EQ(welfords(norm), 1);
  EXPECT_EQ(welfords(norm, DType::kBF16), 1);
  const Fusion after = simplify(fusion_of(norm));
  EXPECT_EQ(count_ops(after, "reduce.sum"), 0);
}

TEST(RecognizeWelford, AcceptsBothWaysToDivideAndBothSigns) {
  EXPECT_EQ(welfords(deviations([](auto& b, ValueId sum) { return b.div(sum, b.constant(24)); })),
            1);
  EXPECT_EQ(
      welfords(deviations([](auto& b, ValueId sum) { return b.mul(sum, b.constant(1.0 / 24)); })),
      1);
  EXPECT_EQ(welfords([](FusionBuilder& b, ValueId x) {
              const ValueId m = b.broadcast_over(mean(b, x), x, {1});
              return b.sum(b.pointwise(PointwiseFn::kPow, {b.sub(m, x), b.constant(2.0)}), {1});
            }),
            1);
}

TEST(RecognizeWelford, FindsItOverSeveralAndLeadingAxes) {
  for (const std::vector<int>& axes : {std::vector{0}, std::vector{0, 1}, std::vector{0, 2}}) {
    const auto make = [&](auto& b, ValueId x) { return variance(b, x, axes).variance; };
    EXPECT_EQ(welfords(make, DType::kF32, {4, 8, 16}), 1);
  }
}

TEST(RecognizeWelford, FindsItAfterSpecialize) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kBF16, {b.symbol("rows"), b.symbol("cols")});
  b.output(layer_norm(b, x).y);
  const Fusion symbolic = simplify(b.build());
  // With no columns the mean is NaN, which Welford's is not.
  EXPECT_EQ(count_ops(symbolic, "welford"), 0);
  const auto count_for = [&](int64_t cols) {
    const auto binding = bind_extents(symbolic, {{"rows", 8}, {"cols", cols}});
    return count_ops(simplify(specialize(symbolic, *binding)), "welford");
  };
  EXPECT_EQ(count_for(100), 1);
  EXPECT_EQ(count_for(64), 1);
  EXPECT_EQ(count_for(1), 1);
  EXPECT_EQ(count_for(0), 0);
}

TEST(RecognizeWelford, LeavesOtherForms) {
  // Another divisor.
  EXPECT_EQ(welfords(deviations([](auto& b, ValueId sum) { return b.div(sum, b.constant(23)); })),
            0);
  // The wrong way up.
  EXPECT_EQ(welfords(deviations([](auto& b, ValueId sum) { return b.div(b.constant(24), sum); })),
            0);
  // The mean of something else.
  EXPECT_EQ(welfords([](FusionBuilder& b, ValueId x) {
              const ValueId m = mean(b, b.abs(x));
              const ValueId d = b.sub(x, b.broadcast_over(m, x, {1}));
              return b.sum(b.mul(d, d), {1});
            }),
            0);
  // mean(x^2) - mean(x)^2.
  EXPECT_EQ(welfords([](FusionBuilder& b, ValueId x) {
              const ValueId m = mean(b, x);
              const ValueId square_mean = mean(b, b.mul(x, x));
              return b.sub(square_mean, b.mul(m, m));
            }),
            0);
  // Deviations reduced over other axes than the mean.
  EXPECT_EQ(welfords(
                [](FusionBuilder& b, ValueId x) {
                  const ValueId d = b.sub(x, b.broadcast_over(mean(b, x), x, {1}));
                  return b.sum(b.mul(d, d), {0});
                },
                DType::kF32, {24, 24}),
            0);
  // Absolute deviations.
  EXPECT_EQ(welfords([](FusionBuilder& b, ValueId x) {
              return b.sum(b.abs(b.sub(x, b.broadcast_over(mean(b, x), x, {1}))), {1});
            }),
            0);
}

}  // namespace sinter::recognize_welford_test
