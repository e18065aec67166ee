#include "runtime/oracle/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "runtime/oracle/comparison.h"

namespace sinter::oracle_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Binding bind(const Fusion& fusion, const ExtentValues& extents = {}) {
  const Result<Binding> binding = bind_extents(fusion, extents);
  EXPECT_TRUE(binding.has_value()) << (binding ? "" : binding.error().text());
  return *binding;
}

OracleResult evaluate(const FusionBuilder& b, std::vector<HostTensor> inputs,
                      const ExtentValues& extents = {}) {
  const Fusion fusion = b.build();
  return sinter::evaluate(fusion, bind(fusion, extents), inputs);
}

HostTensor tensor(DType type, Sizes sizes, std::vector<double> values) {
  return HostTensor::of(type, std::move(sizes), values);
}

/// A device's rows: `width` f32 numbers each, in a random order of evaluation.
struct Rows {
  int64_t rows;
  int64_t width;
  std::vector<float> data;
  [[nodiscard]] float at(int64_t row, int64_t column) const {
    return data[static_cast<size_t>(row * width + column)];
  }
};

Rows rows_of(const HostTensor& x) {
  Rows rows{x.sizes()[0], x.sizes()[1], {}};
  for (int64_t i = 0; i < x.count(); ++i) rows.data.push_back(static_cast<float>(x.get(i)));
  return rows;
}

std::vector<int64_t> shuffled(int64_t n, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 generator(seed);
  std::ranges::shuffle(order, generator);
  return order;
}

/// Sum of term(column) over a row in f32, in a random order.
template <class Term>
float sum_row(int64_t width, uint64_t seed, Term term) {
  float sum = 0.0F;
  for (const int64_t column : shuffled(width, seed)) sum += term(column);
  return sum;
}

constexpr int64_t kWidths[] = {1, 3, 33, 127, 1000, 4096};

/// The output with one element moved by `relative` of its magnitude, by 2^-20 at least.
HostTensor perturbed(HostTensor actual, int64_t element, double relative) {
  const double value = actual.get(element);
  actual.set(element, value + relative * std::max(std::fabs(value), 0x1p-20));
  return actual;
}

/// Position of the largest magnitude: its error is relative to itself, not to its row.
int64_t largest(const HostTensor& x) {
  int64_t best = 0;
  for (int64_t i = 1; i < x.count(); ++i) {
    if (std::fabs(x.get(i)) > std::fabs(x.get(best))) best = i;
  }
  return best;
}

/// layer_norm in f32 as a device would compute it: statistics in random order, then the apply.
HostTensor layer_norm_on_device(const HostTensor& x, DType output, float epsilon) {
  const Rows rows = rows_of(x);
  HostTensor y = HostTensor::poisoned(output, x.sizes());
  const auto n = static_cast<float>(rows.width);
  for (int64_t row = 0; row < rows.rows; ++row) {
    const auto seed = static_cast<uint64_t>(row);
    const float mean = sum_row(rows.width, seed, [&](int64_t i) { return rows.at(row, i); }) / n;
    const float variance = sum_row(rows.width, seed + 1,
                                   [&](int64_t i) {
                                     const float d = rows.at(row, i) - mean;
                                     return d * d;
                                   }) /
                           n;
    const float rstd = 1.0F / std::sqrt(variance + epsilon);
    for (int64_t i = 0; i < rows.width; ++i) {
      y.set(row * rows.width + i, static_cast<double>((rows.at(row, i) - mean) * rstd));
    }
  }
  return y;
}

TEST(Oracle, LayerNormBoundIsSoundAndTight) {
  for (const DType type : {DType::kBF16, DType::kF32}) {
    for (const int64_t width : kWidths) {
      SCOPED_TRACE(testing::Message() << name_of(type) << ", width " << width);
      FusionBuilder b;
      const ValueId x = b.input(type, {4, width});
      b.output(layer_norm(b, x, {.output = type}).y);
      const HostTensor input = HostTensor::random(type, {4, width}, {.mean = 0.5});
      const OracleResult expected = evaluate(b, {input});
      const HostTensor device = layer_norm_on_device(input, type, 1e-5F);
      const auto mismatch = compare(expected, 0, device);
      EXPECT_FALSE(mismatch.has_value()) << mismatch->text();
      if (width < 3) continue;
      // Four units of the last place of bf16, or 1e-4 in f32.
      const double change = type == DType::kBF16 ? 4.0 * 0x1p-7 : 1e-4;
      EXPECT_TRUE(compare(expected, 0, perturbed(device, largest(device), change)).has_value());
    }
  }
}

TEST(Oracle, WelfordLayerNormBoundIsSoundAndTight) {
  for (const int64_t width : kWidths) {
    SCOPED_TRACE(testing::Message() << "width " << width);
    FusionBuilder b;
    const ValueId x = b.input(DType::kF32, {4, width});
    const auto [mean, m2] = b.welford(x, {1});
    const ValueId variance = b.div(m2, b.element_count(x, {1}));
    const ValueId rstd = b.rsqrt(b.add(variance, b.constant(round_to(DType::kF32, 1e-5))));
    b.output(b.mul(b.sub(x, b.broadcast_over(mean, x, {1})), b.broadcast_over(rstd, x, {1})));
    const HostTensor input = HostTensor::random(DType::kF32, {4, width}, {.mean = 0.5});
    const OracleResult expected = evaluate(b, {input});
    const HostTensor device = layer_norm_on_device(input, DType::kF32, 1e-5F);
    const auto mismatch = compare(expected, 0, device);
    EXPECT_FALSE(mismatch.has_value()) << mismatch->text();
    if (width < 3) continue;
    EXPECT_TRUE(compare(expected, 0, perturbed(device, largest(device), 1e-4)).has_value());
  }
}

TEST(Oracle, SoftmaxBoundIsSoundAndTight) {
  for (const int64_t width : kWidths) {
    SCOPED_TRACE(testing::Message() << "width " << width);
    FusionBuilder b;
    b.output(softmax(b, b.input(DType::kBF16, {4, width})));
    const HostTensor input = HostTensor::random(DType::kBF16, {4, width}, {.deviation = 3.0});
    const OracleResult expected = evaluate(b, {input});
    const Rows rows = rows_of(input);
    HostTensor device = HostTensor::poisoned(DType::kF32, {4, width});
    for (int64_t row = 0; row < 4; ++row) {
      float max = rows.at(row, 0);
      for (int64_t i = 1; i < width; ++i) max = std::max(max, rows.at(row, i));
      const auto term = [&](int64_t i) { return std::exp(rows.at(row, i) - max); };
      const float sum = sum_row(width, 5, term);
      for (int64_t i = 0; i < width; ++i) {
        device.set(row * width + i, static_cast<double>(term(i) / sum));
      }
    }
    const auto mismatch = compare(expected, 0, device);
    EXPECT_FALSE(mismatch.has_value()) << mismatch->text();
    EXPECT_TRUE(compare(expected, 0, perturbed(device, largest(device), 1e-4)).has_value());
  }
}

TEST(Oracle, CrossEntropyBoundIsSoundAndTight) {
  FusionBuilder b;
  const ValueId logits = b.input(DType::kBF16, {4, 5000});
  const ValueId labels = b.input(DType::kI64, {4});
  b.output(cross_entropy(b, logits, labels));
  const HostTensor x = HostTensor::random(DType::kBF16, {4, 5000});
  const HostTensor y = HostTensor::random(DType::kI64, {4}, {.low = 0, .high = 4999});
  const OracleResult expected = evaluate(b, {x, y});
  const Rows rows = rows_of(x);
  HostTensor device = HostTensor::poisoned(DType::kF32, {4});
  for (int64_t row = 0; row < 4; ++row) {
    const float sum = sum_row(5000, 9, [&](int64_t i) { return std::exp(rows.at(row, i) - 4.0F); });
    device.set(row, static_cast<double>(std::log(sum) + 4.0F - rows.at(row, y.get_integer(row))));
  }
  const auto mismatch = compare(expected, 0, device);
  EXPECT_FALSE(mismatch.has_value()) << mismatch->text();
  EXPECT_TRUE(compare(expected, 0, perturbed(device, 0, 1e-4)).has_value());
}

/// 1 + tanh(x) as a device finds it without tanh(x), with the largest errors that its functions
/// have of one sign.
float one_and_tanh(float x, int sign) {
  const auto off = [&](double value, double relative) {
    return static_cast<float>(value * (1.0 + sign * relative));
  };
  const float exponent = -2.0F * x;
  const float power =
      off(std::exp(static_cast<double>(exponent)), 0x1p-22 + 1.25 * 0x1p-24 * std::fabs(exponent));
  return 2.0F * off(1.0 / static_cast<double>(1.0F + power), -0x1p-23);
}

// 1 + tanh(x) is right with and without tanh(x), and an error of 8 ulps near 1 is noticed.
TEST(Oracle, OneAndTanhMayBeFoundWithoutTanh) {
  std::vector<double> numbers = {0.0, -0.0, 1e-30, -1e-30, 50.0, -50.0, 9.1, -9.1};
  for (double x = 1e-6; x < 12.0; x *= 1.01) {
    numbers.push_back(static_cast<double>(static_cast<float>(x)));
    numbers.push_back(static_cast<double>(static_cast<float>(-x)));
  }
  const auto count = static_cast<int64_t>(numbers.size());
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {count});
  b.output(b.add(b.pointwise(PointwiseFn::kTanh, {x}), b.constant(1.0)), "y");
  const OracleOutput out = evaluate(b, {tensor(DType::kF32, {count}, numbers)}).outputs.front();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto at = static_cast<float>(numbers[i]);
    const double direct = static_cast<double>(1.0F + std::tanh(at));
    EXPECT_LE(std::fabs(direct - out.real[i]), out.bound[i]) << at;
    for (const int sign : {-1, 1}) {
      const auto found = static_cast<double>(one_and_tanh(at, sign));
      EXPECT_LE(std::fabs(found - out.real[i]), out.bound[i]) << at;
    }
    EXPECT_LT(out.bound[i], 8.0 * 0x1p-23 * 2.0) << at;
  }
}

// The simplification finds 1 - tanh(x) behind signs, factors and moves; the bound allows for it
// there, and nowhere else.
TEST(Oracle, OneAndTanhIsFoundAsTheSimplificationFindsIt) {
  using Make = std::function<ValueId(FusionBuilder&, ValueId tanh)>;
  const auto bound_of = [](const Make& make) {
    FusionBuilder b;
    const ValueId x = b.input(DType::kF32, {2, 2});
    const ValueId y = make(b, b.pointwise(PointwiseFn::kTanh, {x}));
    b.output(y, "y");
    const std::vector<double> numbers = {0.001, -0.001, 0.002, 0.0};
    return evaluate(b, {tensor(DType::kF32, {2, 2}, numbers)}).outputs.front().bound.front();
  };
  const auto one = [](FusionBuilder& b) { return b.constant(1.0); };
  const auto neg = [](FusionBuilder& b, ValueId x) { return b.pointwise(PointwiseFn::kNeg, {x}); };
  for (const Make& make : std::initializer_list<Make>{
           [&](auto& b, ValueId t) { return b.add(t, one(b)); },
           [&](auto& b, ValueId t) { return b.sub(one(b), t); },
           [&](auto& b, ValueId t) { return b.sub(one(b), neg(b, t)); },
           [&](auto& b, ValueId t) { return b.add(neg(b, t), one(b)); },
           [&](auto& b, ValueId t) { return b.add(b.mul(t, one(b)), one(b)); },
           [&](auto& b, ValueId t) {
             return b.add(b.permute(t, {1, 0}), one(b));
           },
           [&](auto& b, ValueId t) {
             return b.add(t, b.cast(b.constant(1.0, DType::kBF16), DType::kF32));
           },
           [&](auto& b, ValueId t) { return b.add(t, b.add(b.constant(0.5), b.constant(0.5))); }})
    EXPECT_GT(bound_of(make), 8.0 * 0x1p-24);
  EXPECT_LT(bound_of([&](auto& b, ValueId t) { return b.add(t, b.constant(0.5)); }), 0x1p-23);
  EXPECT_LT(bound_of([&](auto& b, ValueId t) { return b.mul(t, one(b)); }), 0x1p-24);
}

TEST(Oracle, QuantisationAllowsNeighboursOnlyAtTies) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2, 1000});
  const ValueId scale = b.div(b.amax(b.abs(x), {1}), b.constant(127.0));
  const ValueId steps = b.div(x, b.broadcast_over(scale, x, {1}));
  b.output(b.cast(b.pointwise(PointwiseFn::kRound, {steps}), DType::kI8));
  const HostTensor input = HostTensor::random(DType::kF32, {2, 1000});
  const OracleResult expected = evaluate(b, {input});
  const Rows rows = rows_of(input);
  HostTensor device = HostTensor::poisoned(DType::kI8, {2, 1000});
  for (int64_t row = 0; row < 2; ++row) {
    float max = 0.0F;
    for (int64_t i = 0; i < 1000; ++i) max = std::max(max, std::fabs(rows.at(row, i)));
    const float inverse = 127.0F / max;  // a device may multiply where the graph divides
    for (int64_t i = 0; i < 1000; ++i) {
      device.set(row * 1000 + i, static_cast<double>(std::nearbyint(rows.at(row, i) * inverse)));
    }
  }
  const auto mismatch = compare(expected, 0, device);
  EXPECT_FALSE(mismatch.has_value()) << mismatch->text();
  const auto uncertain =
      std::ranges::count_if(expected.outputs[0].bound, [](double bound) { return bound != 0.0; });
  EXPECT_LT(uncertain, 20);
  device.set_integer(0, device.get_integer(0) + 2);
  EXPECT_TRUE(compare(expected, 0, device).has_value());
}

TEST(Oracle, RoundsWhereTheGraphCasts) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2});
  const ValueId rounded = b.cast(b.cast(x, DType::kBF16), DType::kF32);
  b.output(b.sub(x, rounded));
  const OracleResult result =
      evaluate(b, {tensor(DType::kF32, {2}, {1.0 + 0x1p-9, 1.0 + 0x1.8p-8})});
  EXPECT_EQ(result.outputs[0].real, (std::vector<double>{0x1p-9, -0x1p-9}));
  EXPECT_EQ(result.outputs[0].bound, (std::vector<double>{0.0, 0.0}));
}

TEST(Oracle, StoredOutputIsCertainUnlessItMayRoundEitherWay) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2});
  b.output(b.cast(b.exp(x), DType::kBF16));
  // exp(0.0038986) is 2^-8 + 1 to within f32's error, halfway between two bf16 numbers.
  const OracleResult result = evaluate(b, {tensor(DType::kF32, {2}, {0.5, std::log1p(0x1p-8)})});
  EXPECT_EQ(result.outputs[0].bound[0], 0.0);
  EXPECT_EQ(result.outputs[0].bound[1], 0x1p-7);
}

TEST(Oracle, DoubleGraphsHaveDoubleBounds) {
  FusionBuilder b;
  b.output(softmax(b, b.input(DType::kF64, {2, 100})));
  const OracleResult result = evaluate(b, {HostTensor::random(DType::kF64, {2, 100})});
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_LT(result.outputs[0].bound[i], 1e-13 * result.outputs[0].real[i]);
    EXPECT_GT(result.outputs[0].bound[i], 0.0);
  }
}

TEST(Oracle, NanAndInfinityAreCertain) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {4, 2});
  b.output(softmax(b, x));
  b.output(b.amax(x, {1}));
  const OracleResult result =
      evaluate(b, {tensor(DType::kF32, {4, 2},
                          {kNan, 0.0, -kInfinity, -kInfinity, -kInfinity, 1.0, kInfinity, 1.0})});
  const OracleOutput& y = result.outputs[0];
  for (const size_t row : {0U, 1U}) {
    EXPECT_TRUE(std::isnan(y.real[2 * row]));
    EXPECT_TRUE(std::isnan(y.real[2 * row + 1]));
    EXPECT_LT(y.bound[2 * row], kInfinity);
  }
  EXPECT_EQ(y.real[4], 0.0);
  EXPECT_EQ(y.bound[4], 0.0);
  EXPECT_EQ(y.real[5], 1.0);
  EXPECT_TRUE(std::isnan(y.real[6]));  // inf - inf
  const OracleOutput& max = result.outputs[1];
  EXPECT_TRUE(std::isnan(max.real[0]));
  EXPECT_EQ(max.real[1], -kInfinity);
  EXPECT_EQ(max.real[3], kInfinity);
}

TEST(Oracle, EmptyExtents) {
  FusionBuilder b;
  const Extent rows = b.symbol("rows");
  const Extent width = b.symbol("width");
  const ValueId x = b.input(DType::kF32, {rows, width});
  b.output(b.sum(x, {1}));
  b.output(b.amax(x, {1}));
  b.output(b.exp(x));
  const OracleResult no_width =
      evaluate(b, {HostTensor::zeros(DType::kF32, {2, 0})}, {{"rows", 2}, {"width", 0}});
  EXPECT_EQ(no_width.outputs[0].real, (std::vector<double>{0.0, 0.0}));
  EXPECT_EQ(no_width.outputs[1].real, (std::vector<double>{-kInfinity, -kInfinity}));
  EXPECT_TRUE(no_width.outputs[2].real.empty());
  const OracleResult no_rows =
      evaluate(b, {HostTensor::zeros(DType::kF32, {0, 3})}, {{"rows", 0}, {"width", 3}});
  EXPECT_TRUE(no_rows.outputs[0].real.empty());
  EXPECT_EQ(no_rows.outputs[2].sizes, (Sizes{0, 3}));
}

TEST(Oracle, IntegersWrapAndStayExact) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kI32, {2});
  const ValueId wide = b.input(DType::kI64, {1});
  b.output(b.add(x, b.constant_integer(1, DType::kI32)));
  b.output(b.mul(wide, wide));
  HostTensor big = HostTensor::zeros(DType::kI64, {1});
  big.set_integer(0, (int64_t{1} << 53) + 1);
  const OracleResult result = evaluate(b, {tensor(DType::kI32, {2}, {2147483647.0, -5.0}), big});
  EXPECT_EQ(result.outputs[0].integer, (std::vector<int64_t>{-2147483648LL, -4}));
  const uint64_t square = ((uint64_t{1} << 53) + 1) * ((uint64_t{1} << 53) + 1);
  EXPECT_EQ(result.outputs[1].integer[0], static_cast<int64_t>(square));
  EXPECT_EQ(result.outputs[1].bound[0], 0.0);
}

TEST(Oracle, BoolsSelectAndReduce) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2, 3});
  const ValueId positive = b.pointwise(PointwiseFn::kGt, {x, b.constant(0.0)});
  b.output(b.reduce(ReduceFn::kAny, positive, {1}));
  b.output(b.reduce(ReduceFn::kAll, positive, {1}));
  b.output(b.select(positive, x, b.neg(x)));
  const OracleResult result =
      evaluate(b, {tensor(DType::kF32, {2, 3}, {-1.0, 2.0, -3.0, 4.0, 5.0, 6.0})});
  EXPECT_EQ(result.outputs[0].integer, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(result.outputs[1].integer, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(result.outputs[2].real, (std::vector<double>{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}));
}

TEST(Oracle, ArgMaxTakesTheFirstOfTies) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2, 4});
  b.output(b.reduce(ReduceFn::kArgMax, x, {1}));
  b.output(b.reduce(ReduceFn::kArgMin, x, {0}));
  const OracleResult result =
      evaluate(b, {tensor(DType::kF32, {2, 4}, {1.0, 9.0, 9.0, 2.0, 1.0, 9.0, kNan, kNan})});
  EXPECT_EQ(result.outputs[0].integer, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(result.outputs[0].bound, (std::vector<double>{0.0, 0.0}));
  EXPECT_EQ(result.outputs[1].integer, (std::vector<int64_t>{0, 0, 1, 1}));
}

TEST(Oracle, TakeGivesZeroOutsideTheAxis) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2, 3});
  const ValueId index = b.input(DType::kI32, {2});
  b.output(b.take(x, index, 1));
  const HostTensor values = tensor(DType::kF32, {2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
  const auto take = [&](double first, double second) {
    return evaluate(b, {values, tensor(DType::kI32, {2}, {first, second})}).outputs[0].real;
  };
  EXPECT_EQ(take(2.0, 0.0), (std::vector<double>{3.0, 4.0}));
  EXPECT_EQ(take(-1.0, 3.0), (std::vector<double>{0.0, 0.0}));
}

TEST(Oracle, TakeAtAnUncertainIndexCoversWhatItMayPick) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {3});
  const ValueId position = b.input(DType::kF32, {});
  // exp(0) is 1 within rounding, so the truncated index is 0 or 1.
  b.output(b.take(x, b.cast(b.exp(position), DType::kI32), 0));
  const OracleResult result =
      evaluate(b, {tensor(DType::kF32, {3}, {10.0, 20.0, 70.0}), tensor(DType::kF32, {}, {0.0})});
  EXPECT_EQ(result.outputs[0].real[0], 20.0);
  EXPECT_EQ(result.outputs[0].bound[0], 50.0);  // the bound of 1 reaches to both neighbours
}

TEST(Oracle, MovesDataWithoutRounding) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kBF16, {2, 3});
  b.output(b.permute(x, {1, 0}));
  b.output(b.reshape(b.permute(x, {1, 0}), {6}));
  b.output(b.slice(x, {0, 1}, {2, 3}, {1, 1}));
  b.output(b.broadcast(x, {2, 2, 3}, {0, 2}));
  b.output(b.iota({2, 2}, 1));
  const OracleResult result =
      evaluate(b, {tensor(DType::kBF16, {2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0})});
  EXPECT_EQ(result.outputs[0].real, (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(result.outputs[1].real, (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(result.outputs[2].real, (std::vector<double>{2, 3, 5, 6}));
  EXPECT_EQ(result.outputs[3].real, (std::vector<double>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(result.outputs[4].integer, (std::vector<int64_t>{0, 1, 0, 1}));
  for (const OracleOutput& output : result.outputs) {
    EXPECT_TRUE(std::ranges::all_of(output.bound, [](double bound) { return bound == 0.0; }));
  }
}

TEST(Oracle, ConcatenatesAlongAnyAxis) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2, 2});
  const ValueId y = b.input(DType::kF32, {2, 1});
  b.output(b.concatenate({x, y, x}, 1));
  b.output(b.concatenate({b.permute(x, {1, 0}), x}, 0));
  const OracleResult result =
      evaluate(b, {tensor(DType::kF32, {2, 2}, {1, 2, 3, 4}), tensor(DType::kF32, {2, 1}, {5, 6})});
  EXPECT_EQ(result.outputs[0].real, (std::vector<double>{1, 2, 5, 1, 2, 3, 4, 6, 3, 4}));
  EXPECT_EQ(result.outputs[1].real, (std::vector<double>{1, 3, 2, 4, 1, 2, 3, 4}));
  EXPECT_TRUE(
      std::ranges::all_of(result.outputs[0].bound, [](double bound) { return bound == 0.0; }));
}

TEST(Oracle, ConcatenationsAndPadsKeepBounds) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {1});
  b.output(b.pad(b.concatenate({b.exp(x), x}, 0), {1}, {0}, -1.0));
  const OracleOutput y = evaluate(b, {tensor(DType::kF32, {1}, {1.0})}).outputs[0];
  EXPECT_EQ(y.real[0], -1.0);
  EXPECT_EQ(y.real[2], 1.0);
  EXPECT_EQ(y.bound[0], 0.0);
  EXPECT_GT(y.bound[1], 0.0);
  EXPECT_EQ(y.bound[2], 0.0);
}

TEST(Oracle, PadsEverySideOfEveryAxis) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kI32, {2, 2});
  b.output(b.pad(x, {1, 0}, {0, 2}, 9.0));
  b.output(b.pad(b.slice(x, {0, 0}, {0, 2}), {1, 1}, {1, 0}, 7.0));  // Of no elements.
  const OracleResult result = evaluate(b, {tensor(DType::kI32, {2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(result.outputs[0].integer, (std::vector<int64_t>{9, 9, 9, 9, 1, 2, 9, 9, 3, 4, 9, 9}));
  EXPECT_EQ(result.outputs[1].integer, (std::vector<int64_t>(6, 7)));
}

TEST(Oracle, JoinsOfManyElementsAreTheSameOnManyThreads) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {300, 200});
  const ValueId y = b.exp(x);
  b.output(
      b.pad(b.concatenate({y, b.permute(b.reshape(y, {200, 300}), {1, 0})}, 1), {3, 0}, {0, 5}));
  const Fusion fusion = b.build();
  const std::vector<HostTensor> inputs = {HostTensor::random(DType::kF32, {300, 200})};
  const OracleResult one = sinter::evaluate(fusion, bind(fusion), inputs, {.threads = 1});
  const OracleResult many = sinter::evaluate(fusion, bind(fusion), inputs, {.threads = 4});
  EXPECT_EQ(one.outputs[0].real, many.outputs[0].real);
  EXPECT_EQ(one.outputs[0].bound, many.outputs[0].bound);
}

TEST(Oracle, RandomNumbersAreExactWhereSeedAndIndexAre) {
  FusionBuilder b;
  const ValueId seed = b.input(DType::kI64, {});
  b.output(b.pointwise(PointwiseFn::kPhiloxUniform, {seed, b.iota({9}, 0)}));
  const ValueId maybe = b.cast(b.exp(b.input(DType::kF32, {})), DType::kI64);
  b.output(b.pointwise(PointwiseFn::kPhiloxUniform, {seed, maybe}));
  HostTensor key = HostTensor::zeros(DType::kI64, {});
  key.set_integer(0, std::numeric_limits<int64_t>::min() + 5);
  const OracleResult result = evaluate(b, {key, tensor(DType::kF32, {}, {0.0})});
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(
        result.outputs[0].real[i],
        evaluate_random(PointwiseFn::kPhiloxUniform, key.get_integer(0), static_cast<int64_t>(i)));
    EXPECT_EQ(result.outputs[0].bound[i], 0.0);
  }
  // exp(0) truncates to 0 or 1: the number may be any in [0, 1).
  EXPECT_GE(result.outputs[1].bound[0], 0.5);
  EXPECT_LE(result.outputs[1].bound[0], 1.0);
}

/// y = 2 x beside the number of elements, for a call that declares both.
std::vector<OracleOutput> twice(const ExternalOp& op, std::span<const OracleOutput> operands) {
  EXPECT_EQ(op.name, "twice");
  EXPECT_EQ(op.results[0].shape, (Shape{3}));  // Bound.
  EXPECT_EQ(operands.size(), 1U);
  OracleOutput y{.type = DType::kF32, .sizes = {3}};
  for (size_t i = 0; i < operands[0].real.size(); ++i) {
    y.real.push_back(2.0 * operands[0].real[i]);
    y.bound.push_back(2.0 * operands[0].bound[i]);
  }
  OracleOutput count{.type = DType::kI64, .integer = {3}, .bound = {0.0}};
  return {y, count};
}

TEST(Oracle, ExternalCallsPassElementsAndBounds) {
  FusionBuilder b;
  const Extent n = b.symbol("n");
  const ValueId x = b.input(DType::kF32, {n});
  const auto results =
      b.external("twice", {b.exp(x)}, {{DType::kF32, {n}}, {DType::kI64, {}}}, {"y", "count"});
  b.output(b.neg(results[0]));
  b.output(results[1]);
  const Fusion fusion = b.build();
  const OracleResult result =
      sinter::evaluate(fusion, bind(fusion, {{"n", 3}}),
                       std::vector{tensor(DType::kF32, {3}, {0, 1, 2})}, {.external = twice});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(result.outputs[0].real[i], -2.0 * std::exp(static_cast<double>(i)), 1e-6);
    EXPECT_GT(result.outputs[0].bound[i], 0.0);
  }
  EXPECT_EQ(result.outputs[1].integer, std::vector<int64_t>{3});
}

/// What a call takes and gives lies in memory, rounded to its type.
TEST(Oracle, ExternalCallsReadAndWriteMemory) {
  FusionBuilder b;
  const ValueId x = b.cast(b.input(DType::kF32, {1}), DType::kBF16);
  b.output(b.external("f", {x}, {{DType::kBF16, {1}}})[0]);
  const Fusion fusion = b.build();
  double seen = 0.0;
  const ExternalFunction third = [&](const ExternalOp&, std::span<const OracleOutput> operands) {
    seen = operands[0].real[0];
    return std::vector{
        OracleOutput{.type = DType::kBF16, .sizes = {1}, .real = {1.0 / 3.0}, .bound = {0.0}}};
  };
  const OracleResult result =
      sinter::evaluate(fusion, bind(fusion), std::vector{tensor(DType::kF32, {1}, {1.0 + 0x1p-9})},
                       {.external = third});
  EXPECT_EQ(seen, 1.0);
  EXPECT_EQ(result.outputs[0].real[0], round_to(DType::kBF16, 1.0 / 3.0));
}

TEST(Oracle, ReducesAnyAxesOfAStridedInput) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {2, 3, 2});
  b.output(b.sum(x, {0, 2}));
  HostTensor strided =
      HostTensor::zeros(DType::kF32, {2, 3, 2}, {.strides = {1, 8, 2}, .byte_offset = 4});
  for (int64_t i = 0; i < 12; ++i) strided.set(i, static_cast<double>(i));
  EXPECT_EQ(evaluate(b, {strided}).outputs[0].real, (std::vector<double>{14.0, 22.0, 30.0}));
}

TEST(Oracle, ExtentsFollowTheBinding) {
  FusionBuilder b;
  const Extent width = b.symbol("width");
  const ValueId x = b.input(DType::kF32, {2, width});
  b.output(mean(b, x));
  const OracleResult result =
      evaluate(b, {tensor(DType::kF32, {2, 4}, {1, 2, 3, 6, 2, 2, 2, 2})}, {{"width", 4}});
  EXPECT_EQ(result.outputs[0].real, (std::vector<double>{3.0, 2.0}));
}

TEST(Oracle, RejectsInputsThatContradictTheFusion) {
  FusionBuilder b;
  b.output(b.exp(b.input(DType::kF32, {2})));
  const auto message = [&](std::vector<HostTensor> inputs) -> std::string {
    try {
      evaluate(b, std::move(inputs));
    } catch (const SinterException& exception) {
      return exception.error().message;
    }
    return "accepted";
  };
  EXPECT_EQ(message({}), "the fusion has 1 inputs, but 0 tensors were passed");
  EXPECT_EQ(message({HostTensor::zeros(DType::kF32, {3})}),
            "input 0 is f32[2], but the tensor passed is f32[3]");
  EXPECT_EQ(message({HostTensor::zeros(DType::kF16, {2})}),
            "input 0 is f32[2], but the tensor passed is f16[2]");
}

}  // namespace sinter::oracle_test
