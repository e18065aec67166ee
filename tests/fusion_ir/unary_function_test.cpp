// Functions of one value: which ops belong to them, and which of them are a GELU.

#include "fusion_ir/unary_function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"

namespace sinter::unary_function_test {

/// The function of the graph's first input, and what it is at 2.
struct Found {
  bool exists = false;
  bool is_gelu = false;
  size_t ops = 0;
  double at_two = 0.0;
};
Found found(const std::function<void(FusionBuilder&, ValueId)>& build) {
  FusionBuilder b("unary");
  const ValueId x = b.input(DType::kF32, {4, 8});
  build(b, x);
  const Fusion fusion = b.build();
  const auto function = unary_function(fusion, x);
  if (!function) return {};
  return {.exists = true,
          .is_gelu = is_tanh_gelu(fusion, *function),
          .ops = function->ops.size(),
          .at_two = evaluate(fusion, *function, 2.0)};
}

TEST(UnaryFunctionTest, EndsWhereOthersUseTheResult) {
  const Found sum = found([](FusionBuilder& b, ValueId x) {
    const ValueId y = b.exp(b.mul(x, x));
    b.output(b.add(y, b.input(DType::kF32, {4, 8})));
  });
  EXPECT_EQ(sum.ops, 2U);
  EXPECT_DOUBLE_EQ(sum.at_two, std::exp(4.0));
  const Found cast =
      found([](FusionBuilder& b, ValueId x) { b.output(b.cast(b.neg(x), DType::kBF16)); });
  EXPECT_DOUBLE_EQ(cast.at_two, -2.0);
}

TEST(UnaryFunctionTest, HasOneResultAndOneArgument) {
  EXPECT_FALSE(found([](FusionBuilder& b, ValueId x) { b.output(b.cast(x, DType::kBF16)); }).exists)
      << "nothing is computed";
  EXPECT_FALSE(found([](FusionBuilder& b, ValueId x) {
                 b.output(b.exp(x));
                 b.output(b.neg(x));
               }).exists)
      << "two results";
  EXPECT_FALSE(found([](FusionBuilder& b, ValueId x) {
                 b.output(b.mul(b.exp(x), b.cast(b.cast(x, DType::kBF16), DType::kF32)));
               }).exists)
      << "the argument is used otherwise";
}

TEST(UnaryFunctionTest, AGeluIsKnownByItsValues) {
  EXPECT_TRUE(found([](FusionBuilder& b, ValueId x) { b.output(gelu_tanh(b, x)); }).is_gelu);
  EXPECT_FALSE(found([](FusionBuilder& b, ValueId x) { b.output(gelu(b, x)); }).is_gelu)
      << "by the error function";
  EXPECT_FALSE(found([](FusionBuilder& b, ValueId x) { b.output(relu(b, x)); }).is_gelu);
  // x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)) is the same function.
  const auto by_sigmoid = [](double cubic) {
    return found([&](FusionBuilder& b, ValueId x) {
      const auto times = [&](ValueId v, double factor) {
        return b.mul(v, b.broadcast(b.constant(factor), {4, 8}, {}));
      };
      const ValueId inner = b.add(x, times(b.mul(b.mul(x, x), x), cubic));
      b.output(b.mul(x, sigmoid(b, times(inner, 2.0 * std::sqrt(2.0 / std::numbers::pi)))));
    });
  };
  EXPECT_TRUE(by_sigmoid(0.044715).is_gelu);
  EXPECT_FALSE(by_sigmoid(0.0447).is_gelu) << "another constant";
  // Equal from -8 to 8.
  EXPECT_FALSE(found([](FusionBuilder& b, ValueId x) {
                 const ValueId most = b.broadcast(b.constant(65504.0), {4, 8}, {});
                 b.output(b.pointwise(PointwiseFn::kMin, {gelu_tanh(b, x), most}));
               }).is_gelu)
      << "with a clamp";
}

}  // namespace sinter::unary_function_test
