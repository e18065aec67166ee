#include "runtime/oracle/bounded_reduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace sinter::bounded_reduction_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kF32 = DType::kF32;
constexpr int kLengths[] = {1, 2, 3, 31, 33, 127, 1000, 4097};

/// A row as the oracle sees it and as a device with operand errors within `bounds` holds it.
struct Row {
  std::vector<double> values;
  std::vector<double> bounds;
  std::vector<float> held;
  [[nodiscard]] RealRow real() const { return {values, bounds}; }
};

Row random_row(int n, double mean, double relative_error, std::mt19937_64& generator) {
  std::normal_distribution<double> normal(mean, 1.0);
  std::uniform_real_distribution<double> unit(-1.0, 1.0);
  Row row;
  for (int i = 0; i < n; ++i) {
    const auto value = static_cast<double>(static_cast<float>(normal(generator)));
    const double bound = std::fabs(value) * relative_error;
    row.values.push_back(value);
    if (relative_error > 0.0) row.bounds.push_back(bound);
    const auto held = static_cast<float>(value + unit(generator) * bound);
    const bool inside = std::fabs(static_cast<double>(held) - value) <= bound;
    row.held.push_back(inside ? held : static_cast<float>(value));
  }
  std::ranges::shuffle(row.held, generator);
  return row;
}

void expect_within(double device, BoundedReal expected) {
  EXPECT_LE(spread(device, expected.value), expected.bound)
      << "device " << device << ", expected " << expected.value;
}

/// Calls check(row) for every length, centred and offset, exact and uncertain rows.
template <class Check>
void for_rows(Check check) {
  std::mt19937_64 generator(11);
  for (const int n : kLengths) {
    for (const double mean : {0.0, 100.0}) {
      for (const double error : {0.0, 1e-6}) {
        for (int repeat = 0; repeat < 5; ++repeat) {
          SCOPED_TRACE(testing::Message() << n << " elements, mean " << mean << ", " << error);
          check(random_row(n, mean, error, generator));
        }
      }
    }
  }
}

TEST(BoundedReduction, SumHoldsInAnyOrder) {
  for_rows([](const Row& row) {
    float sum = 0.0F;
    for (const float x : row.held) sum += x;
    expect_within(static_cast<double>(sum), reduce_bounded(ReduceFn::kSum, kF32, row.real()));
  });
}

TEST(BoundedReduction, SumIsTightEnoughToMissNoElement) {
  std::mt19937_64 generator(3);
  const Row row = random_row(4096, 0.0, 0.0, generator);
  const BoundedReal expected = reduce_bounded(ReduceFn::kSum, kF32, row.real());
  // Some of the smallest of 4096 elements may hide in rounding, a typical one may not.
  EXPECT_LT(expected.bound, 0.1);
  EXPECT_LT(expected.bound, 1e-4 * 4096.0);
}

TEST(BoundedReduction, SumOfSmallIntegersIsExact) {
  const std::vector<double> ones(1000, 1.0);
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, kF32, RealRow{ones, {}}).bound, 0.0);
  const std::vector<double> large(1000, 0x1p20);
  EXPECT_GT(reduce_bounded(ReduceFn::kSum, kF32, RealRow{large, {}}).bound, 0.0);
}

TEST(BoundedReduction, SumKnowsPartialOverflow) {
  const std::vector<double> values = {3e38, 3e38, -3e38};
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, kF32, RealRow{values, {}}).bound, kInfinity);
  const std::vector<double> same = {3e38, 3e38, 3e38};
  const BoundedReal sum = reduce_bounded(ReduceFn::kSum, kF32, RealRow{same, {}});
  EXPECT_EQ(sum.value, kInfinity);
  EXPECT_EQ(sum.bound, 0.0);
}

// From left to right an infinity, which no other order need give: 2^1000 x 2^100 x 2^-100.
TEST(BoundedReduction, ProductsThatOverflowOnTheWayMayBeFinite) {
  const auto bound_of = [](std::vector<double> values) {
    return reduce_bounded(ReduceFn::kProd, DType::kF64, {.values = values, .bounds = {}});
  };
  EXPECT_EQ(bound_of({0x1p1000, -0x1p100, 0x1p-100}).bound, kInfinity);
  EXPECT_EQ(bound_of({0x1p1000, -0x1p100, 0x1p-76}).bound, kInfinity) << "at the limit";
  const BoundedReal beyond = bound_of({0x1p1000, -0x1p100, 0x1p-70});
  EXPECT_EQ(beyond.value, -kInfinity);
  EXPECT_EQ(beyond.bound, 0.0) << "in every order";
  EXPECT_EQ(bound_of({0x1p1000, 0x1p1000, 0x1p1000}).bound, 0.0);
}

TEST(BoundedReduction, ProductHoldsInAnyOrder) {
  std::mt19937_64 generator(5);
  for (const int n : {1, 2, 7, 30}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Row row = random_row(n, 0.0, 1e-6, generator);
      float product = 1.0F;
      for (const float x : row.held) product *= x;
      expect_within(static_cast<double>(product),
                    reduce_bounded(ReduceFn::kProd, kF32, row.real()));
    }
  }
}

TEST(BoundedReduction, WelfordHoldsForUpdatesAndForTwoPasses) {
  for_rows([](const Row& row) {
    const BoundedPair expected = welford_bounded(kF32, row.real());
    float mean = 0.0F;
    float m2 = 0.0F;
    float count = 0.0F;
    for (const float x : row.held) {
      count += 1.0F;
      const float delta = x - mean;
      mean += delta / count;
      m2 += delta * (x - mean);
    }
    expect_within(static_cast<double>(mean), expected.first);
    expect_within(static_cast<double>(m2), expected.second);

    const float two_pass_mean = std::accumulate(row.held.begin(), row.held.end(), 0.0F) / count;
    float squares = 0.0F;
    for (const float x : row.held) squares += (x - two_pass_mean) * (x - two_pass_mean);
    expect_within(static_cast<double>(two_pass_mean), expected.first);
    expect_within(static_cast<double>(squares), expected.second);
  });
}

// From a first element that is far from the others.
TEST(BoundedReduction, WelfordHoldsForPivots) {
  for (const int n : kLengths) {
    std::vector<double> values(static_cast<size_t>(n), 0.01F);
    values[0] = 3.07F;
    const BoundedPair expected = welford_bounded(kF32, {values, {}});
    const auto pivot = static_cast<float>(values[0]);
    float beyond = 0.0F;
    // A thread has so many at most, and what it finds is merged.
    const int first = std::min(n, 256);
    for (const double value : std::span(values).first(static_cast<size_t>(first)))
      beyond += static_cast<float>(value) - pivot;
    const float chunk = pivot + beyond / static_cast<float>(first);
    const float rest = static_cast<float>(n - first) / static_cast<float>(n);
    const float mean = chunk + (0.01F - chunk) * rest;
    expect_within(static_cast<double>(mean), expected.first);
  }
}

// Numbers of 16 bits that have one number added are rounded to one side in long runs.
TEST(BoundedReduction, SumsOfNumbersThatRoundAlikeHold) {
  std::mt19937_64 generator(7);
  std::uniform_int_distribution<int> small(0, 2048);
  for (const float shift : {3.0001F, 3.00012F, 3.00023F, 1.7F}) {
    std::vector<double> values;
    float sum = 0.0F;
    for (int i = 0; i < 1028; ++i) {
      const float x = static_cast<float>(small(generator)) / 1024.0F + shift;
      values.push_back(static_cast<double>(x));
      sum += x;
    }
    const BoundedReal expected = reduce_bounded(ReduceFn::kSum, kF32, RealRow{values, {}});
    expect_within(static_cast<double>(sum), expected);
  }
  // Others keep a probable bound, below half of the worst case.
  const Row any = random_row(1028, 4.0, 0.0, generator);
  const BoundedReal expected = reduce_bounded(ReduceFn::kSum, kF32, any.real());
  EXPECT_LT(expected.bound, 0.5 * 1027 * 0x1p-24 * expected.value);
}

// The largest double has a logarithm that rounds up to that of no double.
TEST(BoundedReduction, SumsUpToTheLargestDoubleHaveBounds) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  std::mt19937_64 generator(8);
  std::uniform_real_distribution<double> drawn(0.0, 1.0);
  std::vector<double> values(1028);
  for (double& value : values) value = drawn(generator);
  values[0] = kLargest;
  const BoundedReal expected = reduce_bounded(ReduceFn::kSum, DType::kF64, RealRow{values, {}});
  EXPECT_TRUE(expected.value == kLargest || !std::isfinite(expected.bound));
}

// mean(x^2) - mean(x)^2 in f32 is the mistake this bound is there to catch.
TEST(BoundedReduction, SumsOfMeansAreAsFarOffAsWelfords) {
  const std::vector<double> integers = {3.0, -1.0, 2.0, 2.0, 0.0};
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, kF32, RealRow{integers, {}}).bound, 0.0);
  const BoundedReal of_mean =
      reduce_bounded(ReduceFn::kSum, kF32, {.values = integers, .bounds = {}, .is_of_mean = true});
  EXPECT_EQ(of_mean.value, 6.0);
  EXPECT_NEAR(of_mean.bound, 5.0 * welford_bounded(kF32, {integers, {}}).first.bound, 1e-12);
  EXPECT_LT(of_mean.bound, 1e-5);
  // The mean of equal elements is exact.
  const std::vector<double> equal = {0.1F, 0.1F, 0.1F};
  const double error = reduce_bounded(ReduceFn::kSum, kF32, RealRow{equal, {}}).bound;
  EXPECT_EQ(
      reduce_bounded(ReduceFn::kSum, kF32, {.values = equal, .bounds = {}, .is_of_mean = true})
          .bound,
      error);
  EXPECT_EQ(
      reduce_bounded(ReduceFn::kSum, kF32, {.values = {}, .bounds = {}, .is_of_mean = true}).bound,
      0.0);
}

/// Elements whose sum overflows to the other infinity.
TEST(BoundedReduction, WelfordsMeanOfAnInfinityIsIt) {
  const std::vector<double> values = {1.5e308, 1.5e308, -std::numeric_limits<double>::infinity()};
  EXPECT_EQ(welford_bounded(DType::kF64, {values, {}}).first.value,
            -std::numeric_limits<double>::infinity());
}

TEST(BoundedReduction, WelfordsMeanDoesNotOverflow) {
  const std::vector<double> far_apart = {3e38, -3e38, -3e38, 1e38};
  const BoundedPair pair = welford_bounded(kF32, {far_apart, {}});
  EXPECT_LT(pair.first.bound, 1e33);
  EXPECT_EQ(pair.second.bound, kInfinity);
}

// Equal addends round alike while the sum keeps its exponent: errors add up, and do not cancel.
TEST(BoundedReduction, HoldsForSumsOfEqualElements) {
  for (const float other : {0.1F, 0.3F}) {
    for (const int n : {33, 127, 1000, 4097, 100000}) {
      SCOPED_TRACE(testing::Message() << n << " times 0.1 and " << other);
      std::vector<double> values;
      float sum = 0.0F;
      float product = 1.0F;
      std::vector<double> factors;
      for (int i = 0; i < n; ++i) {
        const float x = i % 3 == 0 ? other : 0.1F;
        values.push_back(static_cast<double>(x));
        sum += x;
        factors.push_back(static_cast<double>(1.0F + 0.001F * x));
        product *= 1.0F + 0.001F * x;
      }
      expect_within(static_cast<double>(sum),
                    reduce_bounded(ReduceFn::kSum, kF32, RealRow{values, {}}));
      expect_within(static_cast<double>(product),
                    reduce_bounded(ReduceFn::kProd, kF32, RealRow{factors, {}}));
    }
  }
}

TEST(BoundedReduction, WelfordRejectsTheCancellingFormula) {
  std::mt19937_64 generator(13);
  const Row row = random_row(4096, 1000.0, 0.0, generator);
  float sum = 0.0F;
  float squares = 0.0F;
  for (const float x : row.held) {
    sum += x;
    squares += x * x;
  }
  const BoundedReal m2 = welford_bounded(kF32, row.real()).second;
  EXPECT_GT(std::fabs(static_cast<double>(squares - sum * sum / 4096.0F) - m2.value), m2.bound);
}

TEST(BoundedReduction, LogSumExpHoldsOnlineAndInTwoPasses) {
  for_rows([](const Row& row) {
    const BoundedPair expected = logsumexp_bounded(kF32, row.real());
    float max = -std::numeric_limits<float>::infinity();
    float sum = 0.0F;
    for (const float x : row.held) {
      const float next = std::max(max, x);
      sum = sum * std::exp(max - next) + std::exp(x - next);
      max = next;
    }
    expect_within(static_cast<double>(max), expected.first);
    expect_within(static_cast<double>(sum), expected.second);
    float direct = 0.0F;
    for (const float x : row.held) direct += std::exp(x - max);
    expect_within(static_cast<double>(direct), expected.second);
  });
}

TEST(BoundedReduction, LogSumExpIsTight) {
  std::mt19937_64 generator(17);
  const Row row = random_row(4096, 0.0, 0.0, generator);
  const BoundedReal sum = logsumexp_bounded(kF32, row.real()).second;
  EXPECT_LT(sum.bound, 1e-4 * sum.value);
}

TEST(BoundedReduction, EmptyRowsGiveIdentities) {
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, kF32, RealRow{}).value, 0.0);
  EXPECT_EQ(reduce_bounded(ReduceFn::kProd, kF32, RealRow{}).value, 1.0);
  EXPECT_EQ(reduce_bounded(ReduceFn::kMax, kF32, RealRow{}).value, -kInfinity);
  EXPECT_EQ(reduce_bounded(ReduceFn::kMin, kF32, RealRow{}).value, kInfinity);
  EXPECT_EQ(reduce_bounded(ReduceFn::kMax, DType::kI32, IntegerRow{}).value,
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(reduce_bounded(ReduceFn::kMin, DType::kI64, IntegerRow{}).value,
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(reduce_bounded(ReduceFn::kAny, DType::kBool, IntegerRow{}).value, 0);
  EXPECT_EQ(reduce_bounded(ReduceFn::kAll, DType::kBool, IntegerRow{}).value, 1);
  EXPECT_EQ(index_of_extreme(ReduceFn::kArgMax, RealRow{}).value, 0);
  EXPECT_EQ(welford_bounded(kF32, {}).second.value, 0.0);
  EXPECT_EQ(logsumexp_bounded(kF32, {}).first.value, -kInfinity);
  EXPECT_EQ(logsumexp_bounded(kF32, {}).second.value, 0.0);
}

TEST(BoundedReduction, SpecialValuesAreCertain) {
  const auto expect = [](BoundedReal result, double value) {
    EXPECT_EQ(spread(result.value, value), 0.0) << result.value << " instead of " << value;
    EXPECT_EQ(result.bound, 0.0);
  };
  const std::vector<double> nan = {1.0, kNan, 3.0};
  const std::vector<double> infinities = {kInfinity, 1.0, -kInfinity};
  const std::vector<double> masked = {-kInfinity, -kInfinity};
  const std::vector<double> partly_masked = {-kInfinity, 2.0};
  for (const ReduceFn fn : {ReduceFn::kSum, ReduceFn::kProd, ReduceFn::kMax, ReduceFn::kMin}) {
    expect(reduce_bounded(fn, kF32, RealRow{nan, {}}), kNan);
  }
  expect(reduce_bounded(ReduceFn::kSum, kF32, RealRow{infinities, {}}), kNan);
  expect(reduce_bounded(ReduceFn::kMax, kF32, RealRow{infinities, {}}), kInfinity);
  expect(welford_bounded(kF32, {nan, {}}).first, kNan);
  expect(welford_bounded(kF32, {infinities, {}}).second, kNan);
  expect(logsumexp_bounded(kF32, {nan, {}}).second, kNan);
  expect(logsumexp_bounded(kF32, {infinities, {}}).second, kNan);
  expect(logsumexp_bounded(kF32, {masked, {}}).first, -kInfinity);
  expect(logsumexp_bounded(kF32, {masked, {}}).second, kNan);
  EXPECT_EQ(logsumexp_bounded(kF32, {partly_masked, {}}).second.value, 1.0);
}

TEST(BoundedReduction, ExtremeTakesTheBoundOfWhatMayWin) {
  const std::vector<double> values = {1.0, 5.0, 4.0};
  const std::vector<double> apart = {3.0, 0.1, 0.2};
  EXPECT_EQ(reduce_bounded(ReduceFn::kMax, kF32, RealRow{values, apart}).bound, 0.1);
  const std::vector<double> close = {3.0, 0.5, 0.7};
  EXPECT_EQ(reduce_bounded(ReduceFn::kMax, kF32, RealRow{values, close}).bound, 0.7);
}

TEST(BoundedReduction, ArgExtremeTakesTheFirstOfExactTies) {
  const std::vector<double> values = {1.0, 7.0, 7.0, -2.0, -2.0};
  EXPECT_EQ(index_of_extreme(ReduceFn::kArgMax, RealRow{values, {}}).value, 1);
  EXPECT_EQ(index_of_extreme(ReduceFn::kArgMax, RealRow{values, {}}).bound, 0.0);
  EXPECT_EQ(index_of_extreme(ReduceFn::kArgMin, RealRow{values, {}}).value, 3);
  const std::vector<double> nan = {9.0, kNan, kNan};
  EXPECT_EQ(index_of_extreme(ReduceFn::kArgMin, RealRow{nan, {}}).value, 1);
  const std::vector<int64_t> integers = {4, 9, 9};
  EXPECT_EQ(index_of_extreme(ReduceFn::kArgMax, IntegerRow{integers, {}}).value, 1);
}

TEST(BoundedReduction, ArgExtremeReachesToWhatMayWin) {
  const std::vector<double> values = {1.0, 7.0, 6.95, -2.0};
  const std::vector<double> bounds(4, 0.03);
  EXPECT_EQ(index_of_extreme(ReduceFn::kArgMax, RealRow{values, bounds}).bound, 1.0);
  const std::vector<double> smaller(4, 0.02);
  EXPECT_EQ(index_of_extreme(ReduceFn::kArgMax, RealRow{values, smaller}).bound, 0.0);
}

TEST(BoundedReduction, IntegersWrap) {
  const std::vector<int64_t> values = {std::numeric_limits<int32_t>::max(), 1, 1};
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, DType::kI32, IntegerRow{values, {}}).value,
            int64_t{std::numeric_limits<int32_t>::min()} + 1);
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, DType::kI64, IntegerRow{values, {}}).value,
            int64_t{std::numeric_limits<int32_t>::max()} + 2);
}

}  // namespace sinter::bounded_reduction_test
