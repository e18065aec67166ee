#include "fusion_ir/op.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace sinter::op_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min();
constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();

constexpr std::array kAllPointwise = {
#define SINTER_POINTWISE(enumerator, ...) PointwiseFn::enumerator,
#include "fusion_ir/op_list.def"
#undef SINTER_POINTWISE
};
constexpr std::array kAllReduce = {
#define SINTER_REDUCE(enumerator, text) ReduceFn::enumerator,
#include "fusion_ir/op_list.def"
#undef SINTER_REDUCE
};

TEST(OpTest, TextsAreUniqueAndRoundTrip) {
  std::set<std::string_view> texts;
  for (const PointwiseFn fn : kAllPointwise) {
    EXPECT_TRUE(texts.insert(text_of(OpKind(PointwiseOp{fn}))).second);
    EXPECT_EQ(pointwise_from_text(info_of(fn).text), fn);
  }
  for (const ReduceFn fn : kAllReduce) {
    EXPECT_TRUE(texts.insert(text_of(OpKind(ReduceOp{fn, {0}}))).second);
    EXPECT_EQ(reduce_from_text(text_of(fn)), fn);
  }
  EXPECT_EQ(pointwise_from_text("frobnicate"), std::nullopt);
  EXPECT_EQ(reduce_from_text("add"), std::nullopt);
}

TEST(OpTest, CudaSpellingUsesEveryOperandAndNoMore) {
  for (const PointwiseFn fn : kAllPointwise) {
    const PointwiseInfo& info = info_of(fn);
    for (int i = 0; i < 3; ++i) {
      const std::string place = fmt::format("{{{}}}", i);
      EXPECT_EQ(info.cuda.find(place) != std::string_view::npos, i < info.arity) << info.text;
    }
  }
}

TEST(OpTest, MaxMinAndClampPropagateNan) {
  for (const PointwiseFn fn : {PointwiseFn::kMax, PointwiseFn::kMin}) {
    EXPECT_TRUE(std::isnan(evaluate(fn, kNan, 1.0)));
    EXPECT_TRUE(std::isnan(evaluate(fn, 1.0, kNan)));
  }
  EXPECT_TRUE(std::isnan(evaluate(PointwiseFn::kClamp, kNan, 0.0, 1.0)));
  EXPECT_EQ(evaluate(PointwiseFn::kClamp, 5.0, 0.0, 1.0), 1.0);
  EXPECT_EQ(evaluate(PointwiseFn::kClamp, -5.0, 0.0, 1.0), 0.0);
}

TEST(OpTest, ComparisonsWithNanAreFalseButNe) {
  for (const PointwiseFn fn :
       {PointwiseFn::kEq, PointwiseFn::kLt, PointwiseFn::kLe, PointwiseFn::kGt, PointwiseFn::kGe}) {
    EXPECT_EQ(evaluate(fn, kNan, 1.0), 0.0) << info_of(fn).text;
    EXPECT_EQ(evaluate(fn, 1.0, kNan), 0.0) << info_of(fn).text;
    EXPECT_EQ(evaluate(fn, kNan, kNan), 0.0) << info_of(fn).text;
  }
  EXPECT_EQ(evaluate(PointwiseFn::kNe, kNan, kNan), 1.0);
}

TEST(OpTest, FloatFunctionsAtTheirEdges) {
  EXPECT_EQ(evaluate(PointwiseFn::kRsqrt, 0.0), kInfinity);
  EXPECT_EQ(evaluate(PointwiseFn::kDiv, -1.0, 0.0), -kInfinity);
  EXPECT_EQ(evaluate(PointwiseFn::kRem, -7.0, 3.0), -1.0);
  EXPECT_EQ(evaluate(PointwiseFn::kRound, 2.5), 2.0);
  EXPECT_EQ(evaluate(PointwiseFn::kRound, 3.5), 4.0);
  EXPECT_EQ(evaluate(PointwiseFn::kIsNan, kNan), 1.0);
  EXPECT_EQ(evaluate(PointwiseFn::kIsFinite, kInfinity), 0.0);
  EXPECT_EQ(evaluate(PointwiseFn::kSelect, 0.0, 1.0, 2.0), 2.0);
}

TEST(OpTest, IntegersWrapAround) {
  EXPECT_EQ(evaluate_integer(PointwiseFn::kAdd, DType::kI32, kMax32, 1), kMin32);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kAdd, DType::kI64, kMax64, 1), kMin64);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kAdd, DType::kI64, kMax32, 1), kMax32 + 1);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kSub, DType::kI32, kMin32, 1), kMax32);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kMul, DType::kI32, 1 << 16, 1 << 16), 0);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kMul, DType::kI64, kMin64, -1), kMin64);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kNeg, DType::kI32, kMin32), kMin32);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kAbs, DType::kI32, kMin32), kMin32);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kAbs, DType::kI64, kMin64), kMin64);
}

TEST(OpTest, IntegerDivisionTruncatesAndSurvivesZero) {
  EXPECT_EQ(evaluate_integer(PointwiseFn::kDiv, DType::kI32, -7, 2), -3);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kRem, DType::kI32, -7, 2), -1);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kDiv, DType::kI64, 5, 0), 0);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kRem, DType::kI64, 5, 0), 0);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kDiv, DType::kI64, kMin64, -1), kMin64);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kDiv, DType::kI32, kMin32, -1), kMin32);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kRem, DType::kI64, kMin64, -1), 0);
}

TEST(OpTest, LogicOnBoolsAndIntegers) {
  EXPECT_EQ(evaluate_integer(PointwiseFn::kNot, DType::kBool, 1), 0);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kNot, DType::kBool, 0), 1);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kNot, DType::kI32, 0), -1);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kAnd, DType::kI64, 12, 10), 8);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kOr, DType::kI64, 12, 10), 14);
  EXPECT_EQ(evaluate_integer(PointwiseFn::kXor, DType::kI64, 12, 10), 6);
}

/// Doubles hold small integers exactly, so the two evaluators must agree on them.
TEST(OpTest, EvaluatorsAgreeOnSmallIntegers) {
  for (const PointwiseFn fn : kAllPointwise) {
    const PointwiseInfo& info = info_of(fn);
    if (info.typing != Typing::kSame && info.typing != Typing::kCompare) continue;
    for (int64_t a = -9; a <= 9; ++a) {
      for (int64_t b = -4; b <= 4; ++b) {
        const bool divides = fn == PointwiseFn::kDiv || fn == PointwiseFn::kRem;
        if (divides && b == 0) continue;
        const double real =
            std::trunc(evaluate(fn, static_cast<double>(a), static_cast<double>(b), 5.0));
        for (const DType type : {DType::kI32, DType::kI64}) {
          EXPECT_EQ(static_cast<double>(evaluate_integer(fn, type, a, b, 5)), real)
              << info.text << " of " << a << " and " << b;
        }
      }
    }
  }
}

TEST(OpTest, ConstantsCompareByValue) {
  EXPECT_EQ(ConstantOp{.real = kNan}, ConstantOp{.real = -kNan});
  EXPECT_FALSE(ConstantOp{.real = 0.0} == ConstantOp{.real = -0.0});
  EXPECT_FALSE(ConstantOp{.integer = 1} == ConstantOp{.integer = 2});
}

TEST(OpTest, ReducedAxesOfEveryReduction) {
  EXPECT_EQ(reduced_axes(ReduceOp{ReduceFn::kSum, {1}}), std::vector<int>{1});
  EXPECT_EQ(reduced_axes(WelfordOp{{0, 2}}), (std::vector<int>{0, 2}));
  EXPECT_EQ(reduced_axes(LogSumExpOp{{0}}), std::vector<int>{0});
  EXPECT_TRUE(reduced_axes(CastOp{}).empty());
  EXPECT_TRUE(is_reduction(WelfordOp{{0}}));
  EXPECT_FALSE(is_reduction(TakeOp{}));
}

TEST(OpTest, OnlyLogarithmsOfF32HaveAHastyForm) {
  EXPECT_TRUE(has_fast_path_form(PointwiseFn::kLog, DType::kF32));
  EXPECT_TRUE(has_fast_path_form(PointwiseFn::kLog2, DType::kF32));
  EXPECT_FALSE(has_fast_path_form(PointwiseFn::kLog, DType::kF64));
  EXPECT_FALSE(has_fast_path_form(PointwiseFn::kExp, DType::kF32));
}

}  // namespace sinter::op_test
