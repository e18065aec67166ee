// Contractions from the builder to kernels in the interpreter: against the oracle, and against sums
// that this file computes in long double from the bytes of the inputs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/printer.h"
#include "runtime/check/host_execution.h"
#include "scheduler/planning/planner.h"
#include "tests/campaign/plain_evaluator.h"
#include "tests/integration/canned_case.h"

namespace sinter::contraction_test {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes3 {
  int64_t m, n, k;
};

Fusion product(DType type, const Sizes3& sizes, ContractOptions options = {},
               std::string_view equation = "mk,kn->mn") {
  const std::map<char, int64_t> extents = {
      {'b', 3}, {'m', sizes.m}, {'n', sizes.n}, {'k', sizes.k}};
  FusionBuilder b("product");
  const auto input = [&](std::string_view letters) {
    Shape shape;
    for (const char letter : letters) shape.emplace_back(extents.at(letter));
    return b.input(type, shape);
  };
  const size_t comma = equation.find(',');
  const ValueId left = input(equation.substr(0, comma));
  const ValueId right = input(equation.substr(comma + 1, equation.find('-') - comma - 1));
  b.output(b.contract(equation, left, right, options));
  return b.build();
}

/// The element (m, n) of "mk,kn->mn", by definition.
double expected(ContractFn fn, const Sizes3& sizes, const std::vector<HostTensor>& inputs,
                int64_t m, int64_t n) {
  long double sum = 0.0L;
  long double most = -static_cast<long double>(kInfinity);
  std::vector<long double> sums;
  for (int64_t k = 0; k < sizes.k; ++k) {
    const auto a = static_cast<long double>(inputs[0].get(m * sizes.k + k));
    const auto b = static_cast<long double>(inputs[1].get(k * sizes.n + n));
    sum += a * b;
    most = std::max(most, a + b);
    sums.push_back(a + b);
  }
  if (fn == ContractFn::kSum) return static_cast<double>(sum);
  if (fn == ContractFn::kMax || std::isinf(most)) return static_cast<double>(most);
  long double exponentials = 0.0L;
  for (const long double each : sums) exponentials += std::exp(each - most);
  return static_cast<double>(most + std::log(exponentials));
}

/// The planned kernels must agree with the oracle in the interpreter.
void expect_interpreted(const Fusion& fusion, const std::vector<HostTensor>& inputs) {
  const auto planned = plan(fusion, {}, *find_device("H200"), {.families = builtin_families()});
  ASSERT_TRUE(planned) << planned.error().text();
  const auto check = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
  ASSERT_TRUE(check) << check.error().text();
  EXPECT_TRUE(check->passed()) << check->text();
}

/// The oracle's bound must admit what this file computes, and be tight enough to miss no product;
/// the interpreter must agree with the oracle.
void expect_right(ContractFn fn, const Sizes3& sizes, DType type = DType::kBF16) {
  const Fusion fusion = product(type, sizes, {.fn = fn});
  SCOPED_TRACE(print(fusion));
  const Binding binding = bind_extents(fusion, {}).value();
  const std::vector<HostTensor> inputs = sample_inputs(fusion, binding, 1);
  const OracleOutput oracle = evaluate(fusion, binding, inputs).outputs.front();
  for (int64_t m = 0; m < sizes.m; ++m) {
    for (int64_t n = 0; n < sizes.n; ++n) {
      const auto at = static_cast<size_t>(m * sizes.n + n);
      const double here = expected(fn, sizes, inputs, m, n);
      if (std::isinf(here)) {
        EXPECT_EQ(oracle.real[at], here);
        continue;
      }
      // Results are rounded once to f32.
      ASSERT_NEAR(oracle.real[at], here, oracle.bound[at] + std::fabs(here) * 0x1p-23);
      // A small part of a mean product, so that a missing one is seen.
      double magnitude = 1.0 + std::fabs(here);
      for (int64_t k = 0; fn == ContractFn::kSum && k < sizes.k; ++k)
        magnitude += std::fabs(inputs[0].get(m * sizes.k + k) * inputs[1].get(k * sizes.n + n));
      ASSERT_LE(oracle.bound[at],
                magnitude / (8.0 * static_cast<double>(std::max<int64_t>(sizes.k, 1))));
    }
  }
  expect_interpreted(fusion, inputs);
}

// Each of the sizes along each axis, the other two drawn from the rest.
TEST(ContractionTest, ProductsOfAllSizesAreRight) {
  constexpr std::array<int64_t, 19> kSizes = {0,  1,   7,   8,   15,  16,  31,  33,  63, 64,
                                              65, 100, 127, 128, 129, 200, 256, 257, 520};
  constexpr int64_t kMostProducts = 1 << 18;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    const int64_t a = kSizes[i];
    const int64_t b = kSizes[(i * 7 + 3) % kSizes.size()];
    for (const Sizes3& sizes : {Sizes3{a, b, 8}, Sizes3{b, 7, a}, Sizes3{16, a, b}}) {
      if (sizes.m * sizes.n * sizes.k > kMostProducts) continue;
      for (const ContractFn fn : {ContractFn::kSum, ContractFn::kMax, ContractFn::kLogSumExp})
        expect_right(fn, sizes);
    }
  }
}

TEST(ContractionTest, EveryFloatTypeIsRight) {
  for (const DType type :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    for (const ContractFn fn : {ContractFn::kSum, ContractFn::kMax, ContractFn::kLogSumExp})
      expect_right(fn, {9, 17, 33}, type);
  }
}

/// Against the evaluator of the campaign, and in the interpreter.
void expect_alike(const Fusion& fusion, uint64_t seed = 1) {
  SCOPED_TRACE(print(fusion));
  const Binding binding = bind_extents(fusion, {}).value();
  const std::vector<HostTensor> inputs = sample_inputs(fusion, binding, seed);
  const OracleOutput oracle = evaluate(fusion, binding, inputs).outputs.front();
  std::vector<PlainTensor> plain;
  for (const HostTensor& input : inputs) {
    PlainTensor& x = plain.emplace_back(PlainTensor{.type = input.type(), .sizes = input.sizes()});
    for (int64_t i = 0; i < input.count(); ++i) {
      if (is_float(x.type)) {
        x.real.push_back(input.get(i));
      } else {
        x.integer.push_back(input.get_integer(i));
      }
    }
  }
  const PlainTensor result = evaluate_plainly(fusion, binding, plain).front();
  for (size_t i = 0; i < oracle.bound.size(); ++i) {
    if (is_float(result.type)) {
      ASSERT_LE(std::fabs(oracle.real[i] - result.real[i]), oracle.bound[i]) << i;
    } else {
      ASSERT_EQ(oracle.integer[i], result.integer[i]) << i;
      ASSERT_EQ(oracle.bound[i], 0.0) << i;
    }
  }
  expect_interpreted(fusion, inputs);
}

TEST(ContractionTest, EveryLayoutIsRight) {
  for (const char* equation : {"mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->nm", "bmk,bkn->bmn",
                               "mbk,kn->bnm", "kmb,bnk->mbn", "bmk,bkn->mn", "bkm,nkb->nm",
                               "k,kn->n", "mk,k->m", "k,k->", "bk,bk->b", "mkb,bk->m"}) {
    for (const ContractFn fn : {ContractFn::kSum, ContractFn::kMax, ContractFn::kLogSumExp})
      expect_alike(product(DType::kF32, {5, 6, 7}, {.fn = fn}, equation));
  }
}

// Operands that are views, as slices, permutations and broadcasts are.
TEST(ContractionTest, ViewsAreContracted) {
  FusionBuilder b("views");
  const ValueId x = b.input(DType::kF32, {9, 20});
  const ValueId w = b.input(DType::kF32, {7, 5});
  const ValueId rows = b.slice(x, {2, 3}, {8, 13}, {2, 2});
  const ValueId columns = b.permute(b.slice(w, {1, 0}, {7, 5}), {1, 0});
  b.output(b.contract("mk,kn->mn", rows, columns));
  expect_alike(b.build());
  FusionBuilder d("total");
  const ValueId z = d.slice(d.input(DType::kF8E5M2, {189}), {4}, {189}, {2});
  d.output(d.contract("k,k->", z, z, {.fn = ContractFn::kLogSumExp}));
  expect_alike(d.build());
  FusionBuilder c("repeated");
  const ValueId y = c.input(DType::kF32, {3, 7});
  const ValueId v = c.input(DType::kF32, {7, 2});
  c.output(c.contract("bmk,bkn->bnm", c.broadcast(c.slice(y, {1, 2}, {3, 7}), {4, 2, 5}, {1, 2}),
                      c.broadcast(c.slice(v, {1, 1}, {6, 2}), {4, 5, 2}, {1, 2})));
  expect_alike(c.build());
}

TEST(ContractionTest, IntegersAreExact) {
  for (const DType type : {DType::kI8, DType::kU8, DType::kI32, DType::kI64}) {
    for (const ContractFn fn : {ContractFn::kSum, ContractFn::kMax})
      expect_alike(product(type, {9, 10, 300}, {.fn = fn}));
  }
}

// No precision that a graph admits is less exact than what kernels compute; and the oracle says
// how far results may be off.
TEST(ContractionTest, PrecisionsWidenTheBound) {
  const Sizes3 sizes{4, 5, 64};
  std::map<ContractPrecision, double> bounds;
  for (const ContractPrecision precision :
       {ContractPrecision::kIeee, ContractPrecision::kTf32x3, ContractPrecision::kTf32}) {
    const Fusion fusion = product(DType::kF32, sizes, {.precision = precision});
    const Binding binding = bind_extents(fusion, {}).value();
    const std::vector<HostTensor> inputs = sample_inputs(fusion, binding, 1);
    bounds[precision] = evaluate(fusion, binding, inputs).outputs.front().bound.front();
    // Of operands rounded to TF32, or of the parts of three products, by definition.
    double rounded = 0.0;
    double exact = 0.0;
    const auto tf32 = [](double x) {
      const int exponent = std::ilogb(x);
      return x == 0.0 ? x : std::ldexp(std::round(std::ldexp(x, 10 - exponent)), exponent - 10);
    };
    for (int64_t k = 0; k < sizes.k; ++k) {
      const double a = inputs[0].get(k);
      const double b = inputs[1].get(k * sizes.n);
      exact += a * b;
      const double high = tf32(a) * tf32(b);
      const double low = tf32(a) * tf32(b - tf32(b)) + tf32(a - tf32(a)) * tf32(b);
      rounded += precision == ContractPrecision::kTf32     ? high
                 : precision == ContractPrecision::kTf32x3 ? high + low
                                                           : a * b;
    }
    EXPECT_LE(std::fabs(rounded - exact), bounds[precision]);
    expect_alike(fusion);
  }
  EXPECT_LT(bounds[ContractPrecision::kIeee], bounds[ContractPrecision::kTf32x3]);
  EXPECT_LT(16.0 * bounds[ContractPrecision::kTf32x3], bounds[ContractPrecision::kTf32]);
}

/// The results of a 2 x 2 contraction over k elements in the oracle and in the interpreter, which
/// must agree.
std::vector<double> special_results(ContractFn fn, int64_t k,
                                    const std::vector<std::vector<double>>& numbers) {
  const Fusion fusion = product(DType::kF32, {2, 2, k}, {.fn = fn});
  const Binding binding = bind_extents(fusion, {}).value();
  std::vector<HostTensor> inputs = sample_inputs(fusion, binding, 1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    for (size_t at = 0; at < numbers[i].size(); ++at)
      inputs[i].set(static_cast<int64_t>(at), numbers[i][at]);
  }
  const OracleOutput oracle = evaluate(fusion, binding, inputs).outputs.front();
  const auto planned = plan(fusion, {}, *find_device("H200"), {.families = builtin_families()});
  EXPECT_TRUE(planned);
  const auto check = check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
  EXPECT_TRUE(check && check->passed()) << (check ? check->text() : check.error().text());
  for (const double bound : oracle.bound) EXPECT_TRUE(std::isfinite(bound)) << "certain";
  return oracle.real;
}

TEST(ContractionTest, NothingGivesTheIdentity) {
  EXPECT_THAT(special_results(ContractFn::kSum, 0, {}), testing::Each(0.0));
  EXPECT_THAT(special_results(ContractFn::kMax, 0, {}), testing::Each(-kInfinity));
  EXPECT_THAT(special_results(ContractFn::kLogSumExp, 0, {}), testing::Each(-kInfinity));
}

// Rows of -inf give -inf and never NaN; an infinite sum is the result.
TEST(ContractionTest, LogsumexpOfInfinitiesIsAnInfinity) {
  const double inf = kInfinity;
  const std::vector<double> results =
      special_results(ContractFn::kLogSumExp, 3,
                      {{-inf, -inf, -inf, 1.0, 2.0, -inf}, {0.0, inf, 0.0, 1.0, 3.0, 4.0}});
  EXPECT_TRUE(std::isnan(results[1])) << "-inf and inf have no sum";
  EXPECT_EQ(results[0], -inf);
  EXPECT_NEAR(results[2], std::log(std::exp(1.0) + std::exp(2.0)), 1e-6);
  EXPECT_EQ(results[3], inf);
}

// A sum of products is NaN where a zero meets an infinity, as everywhere.
TEST(ContractionTest, SumsOfInfinitiesFollowTheFormula) {
  const double inf = kInfinity;
  const std::vector<double> results =
      special_results(ContractFn::kSum, 2, {{inf, 1.0, 0.0, 2.0}, {1.0, 0.0, 5.0, 6.0}});
  EXPECT_EQ(results[0], inf);
  EXPECT_TRUE(std::isnan(results[1]));
  EXPECT_EQ(results[2], 10.0);
  EXPECT_EQ(results[3], 12.0);
}

// A quotient of a sum of products may become Welford's mean, which is found without the sum.
TEST(ContractionTest, MeansOfProductsAreBoundedAsMeans) {
  constexpr int64_t kColumns = 1000;
  FusionBuilder b("means");
  const ValueId x = b.input(DType::kF32, {8, kColumns});
  const ValueId y = b.input(DType::kF32, {8, kColumns});
  const ValueId mean = b.div(b.contract("rc,rc->r", x, y), b.constant(kColumns));
  const ValueId deviation = b.sub(b.mul(x, y), b.broadcast(mean, {8, kColumns}, {0}));
  b.output(mean);
  b.output(b.sum(b.mul(deviation, deviation), {1}));
  const Fusion fusion = b.build();
  const auto planned = plan(fusion, {}, *find_device("H200"), {.families = builtin_families()});
  ASSERT_TRUE(planned) << planned.error().text();
  std::vector<HostTensor> inputs = sample_inputs(fusion, planned->binding, 1);
  for (const double magnitude : {1.0, 1e-22, 1e18}) {
    for (HostTensor& input : inputs) {
      for (int64_t i = 0; i < input.count(); ++i)
        input.set(i, magnitude * (1.0 + static_cast<double>(i % 7) / 8.0));
    }
    const auto check =
        check_on_host(fusion, planned->binding, *planned, inputs, builtin_families());
    ASSERT_TRUE(check) << check.error().text();
    EXPECT_TRUE(check->passed()) << magnitude << check->text();
  }
}

// The addition of a contraction may be contracted with a product before it, which then does not
// overflow.
TEST(ContractionTest, ProductsBeforeSumsMayNotOverflow) {
  FusionBuilder b("products");
  const ValueId x = b.input(DType::kF32, {1, 1});
  const ValueId y = b.input(DType::kF32, {1, 1});
  b.output(b.contract("mk,kn->mn", b.mul(x, x), y, {.fn = ContractFn::kMax}));
  const Fusion fusion = b.build();
  const Binding binding = bind_extents(fusion, {}).value();
  std::vector<HostTensor> inputs = sample_inputs(fusion, binding, 1);
  inputs[0].set(0, 2e19);
  inputs[1].set(0, -1e38);
  EXPECT_TRUE(std::isinf(evaluate(fusion, binding, inputs).outputs.front().bound.front()));
}

// TF32 rounds numbers below its smallest subnormal to zero.
TEST(ContractionTest, SmallNumbersOfTf32AreOpen) {
  const auto bound_of = [](double a, double b) {
    const Fusion fusion = product(DType::kF32, {1, 1, 1}, {.precision = ContractPrecision::kTf32});
    const Binding binding = bind_extents(fusion, {}).value();
    std::vector<HostTensor> inputs = sample_inputs(fusion, binding, 1);
    inputs[0].set(0, a);
    inputs[1].set(0, b);
    return evaluate(fusion, binding, inputs).outputs.front().bound.front();
  };
  EXPECT_GE(bound_of(0x1p-138, 0x1p120), 0x1p-18) << "all of the product may be lost";
  EXPECT_TRUE(std::isinf(bound_of(0x1p-140, kInfinity)));
  EXPECT_EQ(bound_of(1.0, kInfinity), 0.0);
}

TEST(ContractionTest, WhatNothingReadsIsNotPlanned) {
  constexpr int64_t kHuge = int64_t{1} << 21;
  FusionBuilder b("dead");
  const ValueId x = b.input(DType::kBF16, {kHuge, kHuge});
  (void)b.contract("mk,nk->mn", x, x);
  b.output(b.cast(b.neg(x), DType::kBF16));
  const auto planned = plan(b.build(), {}, *find_device("H200"), {});
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_EQ(std::ranges::count(planned->decisions, "element by element", &Decision::chosen), 0);
}

TEST(ContractionTest, ThePlanSaysHowContractionsAreComputed) {
  const auto decided = [](const Plan& plan, std::string_view chosen) {
    const auto found = std::ranges::find(plan.decisions, chosen, &Decision::chosen);
    return found == plan.decisions.end() ? "" : found->because;
  };
  const auto contracted =
      plan(product(DType::kBF16, {1024, 1024, 512}), {}, *find_device("H200"), {});
  ASSERT_TRUE(contracted) << contracted.error().text();
  EXPECT_THAT(decided(*contracted, "by a kernel that contracts"),
              HasSubstr("us for pointwise ops and a reduction"));
  EXPECT_EQ(contracted->kernels.front().chosen().schedule.family, "matmul");
  const auto small = plan(product(DType::kF32, {64, 32, 16}), {}, *find_device("H200"), {});
  ASSERT_TRUE(small) << small.error().text();
  EXPECT_THAT(decided(*small, "element by element"),
              HasSubstr("us for pointwise ops and a reduction"));
  const auto expanded = plan(product(DType::kF32, {64, 32, 16}, {.fn = ContractFn::kLogSumExp}), {},
                             *find_device("H200"), {});
  ASSERT_TRUE(expanded) << expanded.error().text();
  EXPECT_THAT(decided(*expanded, "element by element"),
              HasSubstr("64 x 32 x 16 pairs of elements"));
}

TEST(ContractionTest, SpacesBeyondAnyDeviceAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 21;
  const auto planned =
      plan(product(DType::kBF16, {kHuge, kHuge, kHuge}), {}, *find_device("H200"), {});
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(planned.error().message, HasSubstr("9.22e+18 pairs of elements"));
  EXPECT_EQ(planned.error().values.size(), 1U);
  // Within what integers count, but more than a kernel walks.
  EXPECT_FALSE(
      plan(product(DType::kF32, {1 << 20, 1 << 20, 1 << 19}, {.fn = ContractFn::kLogSumExp}), {},
           *find_device("H200"), {}));
}

// An empty axis leaves the sizes beside it as they are.
TEST(ContractionTest, EmptyResultsNeedNoKernel) {
  expect_right(ContractFn::kSum, {0, 5, 6});
  expect_right(ContractFn::kLogSumExp, {5, 0, 6});
}

}  // namespace sinter::contraction_test
