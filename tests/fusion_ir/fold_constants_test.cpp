#include "fusion_ir/passes/fold_constants.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "fusion_ir/match.h"
#include "tests/fusion_ir/applied.h"
#include "tests/fusion_ir/op_count.h"

namespace sinter::fold_constants_test {

/// Folds a fusion whose output is constant and returns the constant.
ConstantOp folded(const std::function<ValueId(FusionBuilder&)>& make) {
  FusionBuilder b;
  b.output(make(b));
  const Fusion after = applied(fold_constants, b.build());
  const auto constant = splat_constant(after, after.outputs.front());
  EXPECT_TRUE(constant.has_value()) << output_op(after);
  return constant.value_or(ConstantOp{});
}

TEST(FoldConstants, ArithmeticRoundsToTheType) {
  const double third =
      folded([](FusionBuilder& b) { return b.div(b.constant(1.0), b.constant(3.0)); }).real;
  EXPECT_EQ(third, static_cast<double>(1.0F / 3.0F));
}

TEST(FoldConstants, SeesThroughBroadcasts) {
  const double sum = folded([](FusionBuilder& b) {
                       const ValueId ones = b.broadcast(b.constant(1.0), {4, 8}, {});
                       return b.permute(b.add(ones, b.constant(2.0)), {1, 0});
                     }).real;
  EXPECT_EQ(sum, 3.0);
}

TEST(FoldConstants, IntegersWrapAndDivisionByZeroGivesZero) {
  const auto i32 = [](FusionBuilder& b, int64_t value) {
    return b.constant_integer(value, DType::kI32);
  };
  EXPECT_EQ(folded([&](FusionBuilder& b) {
              const ValueId largest = i32(b, 2147483647);
              return b.add(largest, i32(b, 1));
            }).integer,
            -2147483648LL);
  EXPECT_EQ(folded([&](FusionBuilder& b) {
              const ValueId seven = i32(b, 7);
              return b.div(seven, i32(b, 0));
            }).integer,
            0);
}

/// 2^53 + 1 is no double, so that folding would round to double first and then to the type.
TEST(FoldConstants, IntegersThatNoDoubleHoldsAreCastByTheKernel) {
  const auto is_folded = [](int64_t value, DType to) {
    FusionBuilder b;
    b.output(b.cast(b.constant_integer(value, DType::kI64), to));
    const Fusion after = applied(fold_constants, b.build());
    return splat_constant(after, after.outputs.front()).has_value();
  };
  constexpr int64_t kLimit = int64_t{1} << 53;
  for (const DType to : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    EXPECT_TRUE(is_folded(kLimit, to)) << name_of(to);
    EXPECT_TRUE(is_folded(-kLimit, to)) << name_of(to);
    EXPECT_FALSE(is_folded(kLimit + 1, to)) << name_of(to);
    EXPECT_FALSE(is_folded(-kLimit - 1, to)) << name_of(to);
  }
}

TEST(FoldConstants, CastsRoundTruncateAndSaturate) {
  const auto cast = [](double value, DType to) {
    return folded([&](FusionBuilder& b) { return b.cast(b.constant(value), to); });
  };
  EXPECT_EQ(cast(1.0 + 0x1p-9, DType::kBF16).real, 1.0);
  EXPECT_EQ(cast(-2.75, DType::kI32).integer, -2);
  EXPECT_EQ(cast(300.0, DType::kU8).integer, 255);
  EXPECT_EQ(cast(std::nan(""), DType::kI8).integer, 0);
  EXPECT_EQ(cast(0.5, DType::kBool).integer, 1);
}

TEST(FoldConstants, ExtentsOfConstantShapesBecomeNumbers) {
  const Fusion known = fusion_of([](FusionBuilder& b, ValueId x) {
    return b.mul(x, b.element_count(x, {0, 1}));
  });
  const Fusion after = applied(fold_constants, known);
  EXPECT_EQ(count_ops(after, "extent"), 0);
  EXPECT_TRUE(is_splat_of(after, after.def_of(after.outputs[0]).operands[1], 256.0));

  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {b.symbol("rows"), 32});
  b.output(b.mul(x, b.element_count(x, {0, 1})));
  EXPECT_EQ(count_ops(applied(fold_constants, b.build()), "extent"), 1);
}

TEST(FoldConstants, RandomNumbersOfConstantsAreConstant) {
  const double random = folded([](FusionBuilder& b) {
                          const ValueId seed = b.constant_integer(-7);
                          return b.pointwise(PointwiseFn::kPhiloxUniform,
                                             {seed, b.constant_integer(int64_t{1} << 60)});
                        }).real;
  EXPECT_EQ(random, evaluate_random(PointwiseFn::kPhiloxUniform, -7, int64_t{1} << 60));
}

TEST(FoldConstants, ConcatenationsAndPadsOfOneNumberAreThatNumber) {
  EXPECT_EQ(folded([](FusionBuilder& b) {
              const ValueId twos = b.broadcast(b.constant(2.0), {4}, {});
              return b.pad(b.concatenate({twos, twos}, 0), {1}, {0}, 2.0);
            }).real,
            2.0);
  FusionBuilder b;
  const ValueId twos = b.broadcast(b.constant(2.0), {4}, {});
  b.output(b.pad(twos, {1}, {0}, -2.0));
  b.output(b.concatenate({twos, b.broadcast(b.constant(3.0), {4}, {})}, 0));
  EXPECT_EQ(applied(fold_constants, b.build()), b.build());
}

TEST(FoldConstants, NothingIsFoldedThroughAnExternalCall) {
  FusionBuilder b;
  const ValueId two = b.constant(2.0);
  b.output(b.external("f", {two}, {{DType::kF32, {}}})[0]);
  b.output(b.external("f", {}, {{DType::kF32, {}}})[0]);
  EXPECT_EQ(applied(fold_constants, b.build()), b.build());
}

TEST(FoldConstants, LeavesWhatDependsOnInputs) {
  const Fusion before =
      fusion_of([](FusionBuilder& b, ValueId x) { return b.mul(x, b.constant(2.0)); });
  EXPECT_EQ(applied(fold_constants, before), before);
}

RC_GTEST_PROP(FoldConstants, MatchesTheReferenceOnIntegers, (int32_t a, int32_t c)) {
  for (const PointwiseFn fn : {PointwiseFn::kAdd, PointwiseFn::kMul, PointwiseFn::kSub,
                               PointwiseFn::kRem, PointwiseFn::kXor, PointwiseFn::kMin}) {
    const auto result = folded([&](FusionBuilder& b) {
      const ValueId left = b.constant_integer(a, DType::kI32);
      return b.pointwise(fn, {left, b.constant_integer(c, DType::kI32)});
    });
    RC_ASSERT(result.integer == evaluate_integer(fn, DType::kI32, a, c));
  }
}

}  // namespace sinter::fold_constants_test
