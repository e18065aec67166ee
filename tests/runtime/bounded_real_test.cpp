#include "runtime/oracle/bounded_real.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "runtime/oracle/bounded_cast.h"
#include "runtime/oracle/error_model.h"

namespace sinter::bounded_real_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kF32 = DType::kF32;

constexpr std::array kUnary = {
    PointwiseFn::kNeg,   PointwiseFn::kAbs,   PointwiseFn::kExp,       PointwiseFn::kExp2,
    PointwiseFn::kExpm1, PointwiseFn::kLog,   PointwiseFn::kLog2,      PointwiseFn::kLog1p,
    PointwiseFn::kSqrt,  PointwiseFn::kRsqrt, PointwiseFn::kSin,       PointwiseFn::kCos,
    PointwiseFn::kTanh,  PointwiseFn::kErf,   PointwiseFn::kFloor,     PointwiseFn::kCeil,
    PointwiseFn::kTrunc, PointwiseFn::kRound, PointwiseFn::kReciprocal};
constexpr std::array kBinary = {PointwiseFn::kAdd, PointwiseFn::kSub, PointwiseFn::kMul,
                                PointwiseFn::kDiv, PointwiseFn::kRem, PointwiseFn::kPow,
                                PointwiseFn::kMax, PointwiseFn::kMin};

/// Operands of many magnitudes and what a device may hold in their place.
class Sampler {
 public:
  BoundedReal operand() {
    const double value = round_to(kF32, std::ldexp(uniform(-1.0, 1.0), exponent_(generator_)));
    return {value, std::fabs(value) * std::ldexp(uniform(0.0, 1.0), -width_(generator_))};
  }
  /// An f32 within the bound.
  double held(BoundedReal x) {
    for (;;) {
      const double value = round_to(kF32, x.value + uniform(-1.0, 1.0) * x.bound);
      if (std::fabs(value - x.value) <= x.bound) return value;
    }
  }

 private:
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator_);
  }
  std::mt19937_64 generator_{7};
  std::uniform_int_distribution<int> exponent_{-12, 7};
  std::uniform_int_distribution<int> width_{1, 24};
};

void expect_within(double device, BoundedReal expected, PointwiseFn fn, double x, double y) {
  if (std::isinf(expected.bound)) return;
  EXPECT_LE(spread(device, expected.value), expected.bound)
      << info_of(fn).text << "(" << x << ", " << y << "): device " << device << ", expected "
      << expected.value << " +- " << expected.bound;
}

// The device here rounds correctly, which is the least it is allowed to differ; that bounds are not
// merely large is what the tests of tightness below are for.
TEST(BoundedReal, UnaryBoundsHoldForAnyOperandWithinBounds) {
  Sampler sampler;
  for (const PointwiseFn fn : kUnary) {
    for (int i = 0; i < 5000; ++i) {
      const BoundedReal x = sampler.operand();
      const BoundedReal expected = bounded_real(fn, kF32, x);
      const double held = sampler.held(x);
      expect_within(round_to(kF32, evaluate(fn, held)), expected, fn, held, 0.0);
    }
  }
}

TEST(BoundedReal, BinaryBoundsHoldForAnyOperandsWithinBounds) {
  Sampler sampler;
  for (const PointwiseFn fn : kBinary) {
    for (int i = 0; i < 20000; ++i) {
      const BoundedReal x = sampler.operand();
      const BoundedReal y = sampler.operand();
      const BoundedReal expected = bounded_real(fn, kF32, x, y);
      const double left = sampler.held(x);
      const double right = sampler.held(y);
      expect_within(round_to(kF32, evaluate(fn, left, right)), expected, fn, left, right);
    }
  }
}

TEST(BoundedReal, FmaBoundHolds) {
  Sampler sampler;
  for (int i = 0; i < 20000; ++i) {
    const BoundedReal x = sampler.operand();
    const BoundedReal y = sampler.operand();
    const BoundedReal z = sampler.operand();
    const BoundedReal expected = bounded_real(PointwiseFn::kFma, kF32, x, y, z);
    const auto device =
        std::fma(static_cast<float>(sampler.held(x)), static_cast<float>(sampler.held(y)),
                 static_cast<float>(sampler.held(z)));
    expect_within(static_cast<double>(device), expected, PointwiseFn::kFma, x.value, y.value);
  }
}

TEST(BoundedReal, ExpByScaledExp2IsWithinItsBound) {
  constexpr float kLog2E = 1.4426950408889634F;
  for (float x = -87.0F; x < 88.0F; x += 0.37F) {
    const double device = static_cast<double>(std::exp2(x * kLog2E));
    const BoundedReal expected =
        bounded_real(PointwiseFn::kExp, kF32, {static_cast<double>(x), 0.0});
    expect_within(device, expected, PointwiseFn::kExp, static_cast<double>(x), 0.0);
  }
}

// For exact operands the bound is a few units of the last place: at most those of the accuracy
// table, and so far below any error of a wrong formula.
TEST(BoundedReal, BoundsOfExactOperandsAreAFewUlps) {
  Sampler sampler;
  for (const PointwiseFn fn : kUnary) {
    for (int i = 0; i < 1000; ++i) {
      const BoundedReal x{std::fabs(sampler.operand().value) / 128.0 + 0.5, 0.0};
      const BoundedReal result = bounded_real(fn, kF32, x);
      EXPECT_LE(result.bound, 0x1p-21 * std::max(1.0, std::fabs(result.value)))
          << info_of(fn).text << " of " << x.value;
    }
  }
}

TEST(BoundedReal, RepresentableResultsOfExactOperandsAreExact) {
  EXPECT_EQ(bounded_real(PointwiseFn::kAdd, kF32, {1.5}, {2.25}).bound, 0.0);
  EXPECT_EQ(bounded_real(PointwiseFn::kMul, kF32, {1.5}, {-0.25}).bound, 0.0);
  EXPECT_EQ(bounded_real(PointwiseFn::kFma, kF32, {1.5}, {2.0}, {1.0}).bound, 0.0);
  EXPECT_GT(bounded_real(PointwiseFn::kAdd, kF32, {1.0}, {0x1p-24}).bound, 0.0);
}

TEST(BoundedReal, RoundingFunctionsJumpOnlyAtTheirSteps) {
  EXPECT_EQ(bounded_real(PointwiseFn::kRound, kF32, {2.3, 0.1}).bound, 0.0);
  EXPECT_EQ(bounded_real(PointwiseFn::kRound, kF32, {2.49, 0.1}).bound, 1.0);
  EXPECT_EQ(bounded_real(PointwiseFn::kFloor, kF32, {3.0, 1e-6}).bound, 1.0);
  EXPECT_EQ(bounded_real(PointwiseFn::kFloor, kF32, {3.0, 0.0}).bound, 0.0);
}

TEST(BoundedReal, OverflowIsInfinityWhereCertain) {
  const BoundedReal certain = bounded_real(PointwiseFn::kMul, kF32, {1e30}, {-1e30});
  EXPECT_EQ(certain.value, -kInfinity);
  EXPECT_EQ(certain.bound, 0.0);
  EXPECT_EQ(bounded_real(PointwiseFn::kExp, kF32, {100.0}).value, kInfinity);
  EXPECT_EQ(bounded_real(PointwiseFn::kExp, kF32, {1000.0, 1.0}).bound, 0.0);
  EXPECT_EQ(bounded_real(PointwiseFn::kAdd, kF32, {3.4e38, 1e38}, {0.0}).bound, kInfinity);
  // f64 has room for it.
  EXPECT_EQ(bounded_real(PointwiseFn::kMul, DType::kF64, {1e30}, {-1e30}).value, 1e30 * -1e30);
}

TEST(BoundedReal, PolesWithinTheIntervalLeaveNothingKnown) {
  EXPECT_EQ(bounded_real(PointwiseFn::kDiv, kF32, {1.0}, {0.1, 0.2}).bound, kInfinity);
  EXPECT_EQ(bounded_real(PointwiseFn::kLog, kF32, {0.1, 0.2}).bound, kInfinity);
  EXPECT_EQ(bounded_real(PointwiseFn::kRsqrt, kF32, {0.1, 0.1}).bound, kInfinity);
  EXPECT_EQ(bounded_real(PointwiseFn::kPow, kF32, {0.1, 0.2}, {0.5}).bound, kInfinity);
  EXPECT_LT(bounded_real(PointwiseFn::kPow, kF32, {0.1, 0.2}, {2.0}).bound, 0.1);
}

TEST(BoundedReal, PowersOfOneAndToZeroAreOneEvenOfNan) {
  EXPECT_EQ(bounded_real(PointwiseFn::kPow, kF32, {1.0 - 1e-9, 1e-7}, {kNan}).bound, kInfinity);
  EXPECT_EQ(bounded_real(PointwiseFn::kPow, kF32, {0.9, 1e-7}, {kNan}).bound, 0.0);
  EXPECT_EQ(bounded_real(PointwiseFn::kPow, kF32, {kNan}, {1e-9, 1e-7}).bound, kInfinity);
  EXPECT_EQ(bounded_real(PointwiseFn::kPow, kF32, {kNan}, {0.5, 1e-7}).bound, 0.0);
}

TEST(BoundedReal, SpecialValuesAreCertain) {
  const auto expect = [](BoundedReal result, double value) {
    EXPECT_EQ(spread(result.value, value), 0.0) << result.value << " instead of " << value;
    EXPECT_EQ(result.bound, 0.0);
  };
  expect(bounded_real(PointwiseFn::kAdd, kF32, {kInfinity}, {1.0, 0.5}), kInfinity);
  expect(bounded_real(PointwiseFn::kSub, kF32, {kInfinity}, {kInfinity}), kNan);
  expect(bounded_real(PointwiseFn::kMul, kF32, {kNan}, {1.0, 0.5}), kNan);
  expect(bounded_real(PointwiseFn::kMul, kF32, {0.0}, {kInfinity}), kNan);
  expect(bounded_real(PointwiseFn::kDiv, kF32, {0.0}, {0.0}), kNan);
  expect(bounded_real(PointwiseFn::kDiv, kF32, {-1.0}, {0.0}), -kInfinity);
  expect(bounded_real(PointwiseFn::kExp, kF32, {-kInfinity}), 0.0);
  expect(bounded_real(PointwiseFn::kLog, kF32, {0.0}), -kInfinity);
  expect(bounded_real(PointwiseFn::kLog, kF32, {-1.0}), kNan);
  expect(bounded_real(PointwiseFn::kSin, kF32, {kInfinity}), kNan);
  expect(bounded_real(PointwiseFn::kMax, kF32, {kNan}, {1.0, 0.5}), kNan);
  expect(bounded_real(PointwiseFn::kTanh, kF32, {0.0}), 0.0);
  // The sign of infinity times an interval around zero is open.
  EXPECT_EQ(bounded_real(PointwiseFn::kMul, kF32, {0.1, 0.2}, {kInfinity}).bound, kInfinity);
}

TEST(BoundedReal, TestsAreUncertainOnlyWhereIntervalsMeet) {
  EXPECT_EQ(evaluate_test(PointwiseFn::kLt, {1.0, 0.1}, {2.0, 0.1}).bound, 0.0);
  EXPECT_EQ(evaluate_test(PointwiseFn::kLt, {1.0, 0.6}, {2.0, 0.6}).bound, 1.0);
  EXPECT_EQ(evaluate_test(PointwiseFn::kEq, {1.0, 0.0}, {1.0, 0.0}).bound, 0.0);
  EXPECT_EQ(evaluate_test(PointwiseFn::kEq, {1.0, 1e-7}, {1.0, 0.0}).bound, 1.0);
  EXPECT_EQ(evaluate_test(PointwiseFn::kGe, {kInfinity}, {1.0, 0.5}).value, 1);
  EXPECT_EQ(evaluate_test(PointwiseFn::kNe, {kNan}, {1.0, 0.5}).value, 1);
  EXPECT_EQ(evaluate_test(PointwiseFn::kLt, {kNan}, {1.0, 0.5}).value, 0);
  EXPECT_EQ(evaluate_test(PointwiseFn::kIsNan, {0.0, kInfinity}).bound, 1.0);
  EXPECT_EQ(evaluate_test(PointwiseFn::kIsFinite, {kInfinity}).value, 0);
}

TEST(BoundedReal, SelectCoversBothBranchesOfAnUncertainCondition) {
  EXPECT_EQ(select_bounded({1, 0.0}, BoundedReal{1.0, 0.1}, BoundedReal{5.0, 0.5}).bound, 0.1);
  EXPECT_EQ(select_bounded({1, 1.0}, BoundedReal{1.0, 0.1}, BoundedReal{5.0, 0.5}).bound, 4.5);
  EXPECT_EQ(select_bounded({0, 1.0}, BoundedReal{-kInfinity, 0.0}, BoundedReal{5.0, 0.0}).bound,
            kInfinity);
}

TEST(BoundedCast, RoundsWithAnUncertainTieOnly) {
  // Neighbours of 1 in bf16 are 2^-7 apart.
  EXPECT_EQ(cast_to_real(DType::kBF16, BoundedReal{1.0 + 0x1p-10, 0x1p-12}).bound, 0.0);
  EXPECT_EQ(cast_to_real(DType::kBF16, BoundedReal{1.0 + 0x1p-8, 0x1p-12}).bound, 0x1p-7);
  EXPECT_EQ(cast_to_real(DType::kF8E4M3, BoundedReal{1e9, 1.0}).value, 448.0);
  EXPECT_EQ(cast_to_real(DType::kF16, BoundedReal{65519.0, 2.0}).bound, kInfinity);
  EXPECT_EQ(cast_to_real(DType::kF64, BoundedReal{1.0, 1e-9}).bound, 1e-9);
}

TEST(BoundedCast, ConvertsIntegersAndBools) {
  EXPECT_EQ(cast_to_integer(DType::kI8, BoundedReal{300.0, 1.0}).value, 127);
  EXPECT_EQ(cast_to_integer(DType::kI8, BoundedReal{300.0, 1.0}).bound, 0.0);
  EXPECT_EQ(cast_to_integer(DType::kI32, BoundedReal{kNan, 0.0}).value, 0);
  EXPECT_EQ(cast_to_integer(DType::kI64, BoundedReal{1e300, 0.0}).value,
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(cast_to_integer(DType::kI32, BoundedReal{2.9999, 0.001}).bound, 1.0);
  EXPECT_EQ(cast_to_integer(DType::kBool, BoundedReal{0.1, 0.2}).bound, 1.0);
  EXPECT_EQ(cast_to_integer(DType::kBool, BoundedReal{kNan, 0.0}).value, 1);
  EXPECT_EQ(cast_to_integer(DType::kI8, BoundedInteger{-200, 0.0}).value, -128);
  EXPECT_EQ(cast_to_integer(DType::kU8, BoundedInteger{-1, 0.0}).value, 0);
  // 2^24 + 1 is not an f32; its neighbours are 2 apart and the tie goes to the even one.
  EXPECT_EQ(cast_to_real(kF32, BoundedInteger{(1 << 24) + 1, 0.0}).value, 0x1p24);
  EXPECT_EQ(cast_to_real(kF32, BoundedInteger{(1 << 24) + 1, 0.0}).bound, 0.0);
}

TEST(BoundedInteger, WrapsExactlyAndKnowsWhenItMay) {
  const auto top = BoundedInteger{std::numeric_limits<int32_t>::max(), 0.0};
  EXPECT_EQ(bounded_integer(PointwiseFn::kAdd, DType::kI32, top, {1}).value,
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(bounded_integer(PointwiseFn::kAdd, DType::kI32, top, {1}).bound, 0.0);
  EXPECT_EQ(bounded_integer(PointwiseFn::kAdd, DType::kI32, {5, 1.0}, {3}).bound, 1.0);
  EXPECT_EQ(bounded_integer(PointwiseFn::kSub, DType::kI32, top, {0, 1.0}).bound, kInfinity);
  EXPECT_EQ(bounded_integer(PointwiseFn::kMul, DType::kI32, {5, 1.0}, {-3}).bound, 3.0);
  EXPECT_EQ(bounded_integer(PointwiseFn::kDiv, DType::kI32, {7, 1.0}, {2}).bound, 1.5);
  EXPECT_EQ(bounded_integer(PointwiseFn::kDiv, DType::kI64, {7}, {0}).value, 0);
}

TEST(BoundedInteger, CertainOperandsDecideLogic) {
  const BoundedInteger maybe{1, 1.0};
  EXPECT_EQ(bounded_integer(PointwiseFn::kAnd, DType::kBool, maybe, {0}).bound, 0.0);
  EXPECT_EQ(bounded_integer(PointwiseFn::kAnd, DType::kBool, maybe, {1}).bound, 1.0);
  EXPECT_EQ(bounded_integer(PointwiseFn::kOr, DType::kBool, {1}, maybe).bound, 0.0);
  EXPECT_EQ(bounded_integer(PointwiseFn::kXor, DType::kBool, maybe, {1}).bound, 1.0);
}

TEST(ErrorModel, AccumulationIsWorstCaseForFewAndProbabilisticForMany) {
  const double u = rounding_unit(kF32);
  EXPECT_EQ(accumulation_error(kF32, 1), 0.0);
  EXPECT_NEAR(accumulation_error(kF32, 9), 8.0 * u, 100.0 * u * u);  // second order: 64 u^2
  EXPECT_NEAR(accumulation_error(kF32, 10001), 600.0 * u, 200'000.0 * u * u);  // (600 u)^2 / 2
}

TEST(ErrorModel, RoundingsOfRepeatedNumbersAreNotIndependent) {
  const double u = rounding_unit(kF32);
  // Four times as many, of which four are alike: twice the bound of independent ones, 600 u.
  EXPECT_NEAR(accumulation_error(kF32, 10000, 2500), 4.0 * 6.0 * 50.0 * u, 1e6 * u * u);
  // No worse than the worst case.
  EXPECT_NEAR(accumulation_error(kF32, 10001, 1), 10000.0 * u, 1e9 * u * u);
  EXPECT_EQ(accumulation_error(kF32, 300, 300), accumulation_error(kF32, 300));
}

}  // namespace sinter::bounded_real_test
