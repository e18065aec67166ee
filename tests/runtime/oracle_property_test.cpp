// Whatever order and algorithm a device chooses, the oracle's bound must hold: rows of hard data
// are reduced in actual f32, sequentially, backwards, in pairs and in chunks, and pointwise graphs
// with and without contraction. What the oracle calls certain (NaN, an infinity, a bound of zero)
// no choice may contradict.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "fusion_ir/parser.h"
#include "runtime/check/sample_data.h"
#include "runtime/oracle/bounded_reduction.h"
#include "runtime/oracle/comparison.h"

namespace sinter::oracle_property_test {

constexpr DType kF32 = DType::kF32;

using Row = std::vector<float>;

/// Elements of one kind, and what the oracle is told of them: they, or that they are within 1e-6.
struct Sample {
  Row held;
  std::vector<double> values;
  std::vector<double> bounds;
  [[nodiscard]] RealRow real() const { return {values, bounds}; }
};

Sample sample(SampleData data, int64_t columns, uint64_t seed, bool exact) {
  HostTensor tensor = HostTensor::random(kF32, {1, columns}, {.seed = seed});
  draw_sample_data(tensor, data, seed);
  Sample out;
  for (int64_t i = 0; i < columns; ++i) {
    const double value = tensor.get(i);
    out.held.push_back(static_cast<float>(value));
    const bool moved = !exact && std::isfinite(value) && std::fabs(value) < 1e38;
    out.values.push_back(moved ? value * (1.0 + (i % 3 == 0 ? 1e-6 : -1e-6)) : value);
    if (!exact) out.bounds.push_back(moved ? std::fabs(out.values.back() - value) : 0.0);
  }
  return out;
}

template <class Body>
void for_samples(Body body) {
  for (const SampleData data : sample_data()) {
    for (const int64_t columns : {1, 2, 3, 7, 33, 200}) {
      for (uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(testing::Message()
                     << name_of(data) << ", " << columns << " columns, seed " << seed);
        body(sample(data, columns, seed, seed % 2 == 0));
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

void expect_within(float device, BoundedReal expected, const char* how) {
  if (std::isinf(expected.bound)) return;
  EXPECT_LE(spread(static_cast<double>(device), expected.value), expected.bound)
      << how << ": " << device << ", expected " << expected.value << " +- " << expected.bound;
}

/// Reduces a row in several orders; `make` gives the state of an element, `merge` that of two.
template <class Make, class Merge, class Check>
void in_every_order(const Row& row, Make make, Merge merge, Check check) {
  using State = decltype(make(0.0F));
  std::vector<State> states;
  for (const float x : row) states.push_back(make(x));
  const auto fold = [&](std::vector<State> from) {
    State out = from.front();
    for (size_t i = 1; i < from.size(); ++i) out = merge(out, from[i]);
    return out;
  };
  check(fold(states), "sequential");
  check(fold({states.rbegin(), states.rend()}), "backwards");
  std::vector<State> pairs = states;
  while (pairs.size() > 1) {
    std::vector<State> next;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) next.push_back(merge(pairs[i], pairs[i + 1]));
    if (pairs.size() % 2 == 1) next.push_back(pairs.back());
    pairs = std::move(next);
  }
  check(pairs.front(), "in pairs");
  std::vector<State> lanes(states.begin(),
                           states.begin() + std::min<long>(5, static_cast<long>(states.size())));
  for (size_t i = lanes.size(); i < states.size(); ++i)
    lanes[i % lanes.size()] = merge(lanes[i % lanes.size()], states[i]);
  check(fold(lanes), "in lanes");
}

TEST(OracleProperty, SumsHoldInEveryOrder) {
  for_samples([](const Sample& s) {
    const BoundedReal expected = reduce_bounded(ReduceFn::kSum, kF32, s.real());
    in_every_order(
        s.held, [](float x) { return x; }, [](float a, float b) { return a + b; },
        [&](float got, const char* how) { expect_within(got, expected, how); });
  });
}

TEST(OracleProperty, ProductsHoldInEveryOrder) {
  for_samples([](const Sample& s) {
    const BoundedReal expected = reduce_bounded(ReduceFn::kProd, kF32, s.real());
    in_every_order(
        s.held, [](float x) { return x; }, [](float a, float b) { return a * b; },
        [&](float got, const char* how) { expect_within(got, expected, how); });
  });
}

struct Moments {
  float count = 1.0F;
  float mean = 0.0F;
  float m2 = 0.0F;
};

// Chan's merge, with the difference in halves and its square weighted, before they can overflow.
Moments merged(Moments a, Moments b) {
  const float total = a.count + b.count;
  const float half = 0.5F * b.mean - 0.5F * a.mean;
  const float twice = 2.0F * b.count / total;
  return {total, std::fma(half, twice, a.mean),
          a.m2 + b.m2 + half * (a.count * twice) * (half + half)};
}

TEST(OracleProperty, WelfordHoldsInEveryOrder) {
  for_samples([](const Sample& s) {
    const BoundedPair expected = welford_bounded(kF32, s.real());
    const bool finite = std::ranges::all_of(s.held, [](float x) { return std::isfinite(x); });
    in_every_order(
        s.held,
        [](float x) {
          return Moments{1.0F, x, 0.0F};
        },
        merged,
        [&](Moments got, const char* how) {
          expect_within(got.mean, expected.first, how);
          // The formula's NaN is what is asked for where elements are infinite.
          if (finite) expect_within(got.m2, expected.second, how);
        });
  });
}

TEST(OracleProperty, LogSumExpHoldsOnlineAndInTwoPasses) {
  for_samples([](const Sample& s) {
    const BoundedPair expected = logsumexp_bounded(kF32, s.real());
    float max = s.held.front();
    for (const float x : s.held) max = std::isnan(max) || std::isnan(x) ? NAN : std::max(max, x);
    float sum = 0.0F;
    for (const float x : s.held) sum += std::exp(x - max);
    expect_within(max, expected.first, "max");
    expect_within(sum, expected.second, "two passes");
  });
}

// ---- Graphs

OracleResult evaluate_row(const char* body, const Row& a, const Row& b) {
  const auto n = static_cast<int64_t>(a.size());
  const std::string text =
      fmt::format("fusion @f {{ %v0 a : f32[{0}] = input %v1 b : f32[{0}] = input {1} }}", n,
                  fmt::format(fmt::runtime(body), n));
  const auto fusion = parse_fusion(text);
  EXPECT_TRUE(fusion) << fusion.error().text();
  const auto tensor = [&](const Row& row) {
    const std::vector<double> values(row.begin(), row.end());
    return HostTensor::of(kF32, {n}, values);
  };
  const std::vector<HostTensor> inputs = {tensor(a), tensor(b)};
  return evaluate(*fusion, Binding{}, inputs);
}

/// Elements of every special kind, and every pair of them.
std::pair<Row, Row> special_pairs() {
  const Row specials = {0.0F,  -0.0F,    1.0F,  -1.0F,    1e-45F, -1e-40F,  1.2e-38F,  1e-20F,
                        1e20F, -1.9e19F, 3e38F, -3.4e38F, 0.1F,   INFINITY, -INFINITY, NAN};
  std::pair<Row, Row> out;
  for (const float a : specials) {
    for (const float b : specials) {
      out.first.push_back(a);
      out.second.push_back(b);
    }
  }
  return out;
}

void expect_element(const OracleResult& result, size_t output, size_t i, float device,
                    const char* how) {
  const OracleOutput& expected = result.outputs[output];
  expect_within(device, {expected.real[i], expected.bound[i]}, how);
}

TEST(OracleProperty, ContractionBringsAnOverflowedProductBack) {
  const auto [a, b] = special_pairs();
  for (const char* fn : {"add", "sub"}) {
    const std::string body = fmt::format(
        "%v2 : f32[{{0}}] = mul %v0, %v1 %v3 : f32[{{0}}] = {} %v2, %v0 return %v3", fn);
    const OracleResult result = evaluate_row(body.c_str(), a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const float c = fn == std::string_view("add") ? a[i] : -a[i];
      const float product = a[i] * b[i];
      expect_element(result, 0, i, product + c, "two roundings");
      expect_element(result, 0, i, std::fma(a[i], b[i], c), "contracted");
    }
  }
}

TEST(OracleProperty, WhatFollowsAnOverflowIsOpenToo) {
  // 3e38 * 2 - 3e38 is inf or 3e38; the finite product of 3 is certain.
  const OracleResult result = evaluate_row(
      "%v2 : f32[{0}] = mul %v0, %v1 %v3 : f32[{0}] = sub %v2, %v0 "
      "%v4 : bool[{0}] = is_finite %v3 %v5 : i32[{0}] = cast %v3 return %v4, %v5",
      {3e38F, 3.0F}, {2.0F, 2.0F});
  EXPECT_EQ(result.outputs[0].bound[0], 1.0);
  EXPECT_TRUE(std::isinf(result.outputs[1].bound[0]));
  EXPECT_EQ(result.outputs[0].bound[1], 0.0);
  EXPECT_EQ(result.outputs[1].bound[1], 0.0);
  EXPECT_EQ(result.outputs[1].integer[1], 3);
}

TEST(OracleProperty, EqualOperandsAreOneNumber) {
  const OracleResult result = evaluate_row(
      "%v2 : f32[{0}] = exp %v0 %v3 : f32[{0}] = sub %v2, %v2 %v4 : bool[{0}] = ne %v2, %v2 "
      "return %v3, %v4",
      {1.5F, NAN, INFINITY}, {0.0F, 0.0F, 0.0F});
  EXPECT_EQ(result.outputs[0].real[0], 0.0);
  EXPECT_TRUE(std::isnan(result.outputs[0].real[1]));
  EXPECT_TRUE(std::isnan(result.outputs[0].real[2]));
  EXPECT_EQ(result.outputs[0].bound, std::vector<double>(3, 0.0));
  EXPECT_EQ(result.outputs[1].integer, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(result.outputs[1].bound, std::vector<double>(3, 0.0));
}

TEST(OracleProperty, AMeanMayBeFoundWithoutTheSumThatOverflows) {
  const OracleResult result = evaluate_row(
      "%v2 : f32 = reduce.sum %v0 over(0) %v3 : f32 = constant 4.0 %v4 : f32 = div %v2, %v3 "
      "return %v4",
      {3e38F, 3e38F, 3e38F, 3e38F}, {0.0F, 0.0F, 0.0F, 0.0F});
  EXPECT_TRUE(std::isinf(result.outputs[0].bound[0]));
}

// ---- What must be certain

TEST(OracleProperty, ConstantRowsAreExact) {
  for (const double x : {0.1, -1000.1, 3e38, 1e-40}) {
    for (const size_t n : {1U, 3U, 33U, 1000U}) {
      const std::vector<double> row(n, static_cast<double>(static_cast<float>(x)));
      const BoundedPair both = welford_bounded(kF32, {row, {}});
      EXPECT_EQ(both.first.value, row[0]);
      EXPECT_EQ(both.first.bound, 0.0);
      EXPECT_EQ(both.second.value, 0.0);
      EXPECT_EQ(both.second.bound, 0.0);
    }
  }
}

TEST(OracleProperty, TheVarianceOfALargeMeanIsKnown) {
  const std::vector<double> row = {2e19 + 1e15, 2e19 - 0.8e15};
  const BoundedReal m2 = welford_bounded(kF32, {row, {}}).second;
  EXPECT_NEAR(m2.value, 1.62e30, 0.01e30);
  EXPECT_LT(m2.bound, 0.5 * m2.value);
}

TEST(OracleProperty, SpecialRowsAreCertain) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> masked(5, -kInf);
  EXPECT_TRUE(std::isnan(logsumexp_bounded(kF32, {masked, {}}).second.value));
  EXPECT_EQ(logsumexp_bounded(kF32, {masked, {}}).second.bound, 0.0);
  const std::vector<double> both = {kInf, 1.0, -kInf, 3e38, 3e38};
  EXPECT_TRUE(std::isnan(reduce_bounded(ReduceFn::kSum, kF32, RealRow{both, {}}).value));
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, kF32, RealRow{both, {}}).bound, 0.0);
  // -3e38 - 3e38 is -inf before it meets inf, in one order.
  const std::vector<double> against = {kInf, -3e38, -3e38};
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, kF32, RealRow{against, {}}).bound, kInf);
  const std::vector<double> along = {kInf, 3e38, 3e38};
  EXPECT_EQ(reduce_bounded(ReduceFn::kSum, kF32, RealRow{along, {}}).bound, 0.0);
  // 1e380 * 0 would be NaN in double, and is 0 in one order of f32.
  std::vector<double> vanishing(10, 1e38);
  vanishing.push_back(0.0);
  EXPECT_EQ(reduce_bounded(ReduceFn::kProd, kF32, RealRow{vanishing, {}}).bound, kInf);
}

}  // namespace sinter::oracle_property_test
