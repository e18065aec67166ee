// Every op with values worked out by hand.

#include "tests/campaign/plain_evaluator.h"

#include <gmock/gmock.h>

#include <cmath>

#include "fusion_ir/fusion_builder.h"
#include "tests/campaign/plain_number.h"

namespace sinter::plain_evaluator_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsNan;

PlainTensor reals(DType type, Sizes sizes, std::vector<double> values) {
  return {.type = type, .sizes = std::move(sizes), .real = std::move(values)};
}
PlainTensor integers(DType type, Sizes sizes, std::vector<int64_t> values) {
  return {.type = type, .sizes = std::move(sizes), .real = {}, .integer = std::move(values)};
}

/// A graph of one tensor x, f32[2, 3] of 1 ... 6 unless another is asked for.
class PlainEvaluator : public ::testing::Test {
 protected:
  ValueId x() { return b_.input(DType::kF32, {2, 3}, "x"); }
  std::vector<PlainTensor> run(std::vector<ValueId> outputs) {
    return run(std::move(outputs), {reals(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6})});
  }
  std::vector<PlainTensor> run(std::vector<ValueId> outputs, std::vector<PlainTensor> inputs,
                               const Binding& binding = {}, const PlainCall& call = {}) {
    for (const ValueId output : outputs) b_.output(output);
    return evaluate_plainly(b_.build(), binding, inputs, call);
  }
  FusionBuilder b_;
};

TEST_F(PlainEvaluator, PermutesReshapesSlicesAndPads) {
  const ValueId in = x();
  const auto out =
      run({b_.permute(in, {1, 0}), b_.reshape(in, {3, 2}), b_.slice(in, {0, 0}, {2, 3}, {1, 2}),
           b_.slice(in, {1, 1}, {2, -1}), b_.pad(in, {1, 0}, {0, 1}, 9.0)});
  EXPECT_THAT(out[0].sizes, ElementsAre(3, 2));
  EXPECT_THAT(out[0].real, ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(out[1].real, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(out[2].sizes, ElementsAre(2, 2));
  EXPECT_THAT(out[2].real, ElementsAre(1, 3, 4, 6));
  EXPECT_THAT(out[4].sizes, ElementsAre(3, 4));
  EXPECT_THAT(out[4].real, ElementsAre(9, 9, 9, 9, 1, 2, 3, 9, 4, 5, 6, 9));
}

TEST_F(PlainEvaluator, SlicesFromTheStartOn) {
  const auto out = run({b_.slice(x(), {1, 1}, {2, 3})});
  EXPECT_THAT(out[0].sizes, ElementsAre(1, 2));
  EXPECT_THAT(out[0].real, ElementsAre(5, 6));
}

TEST_F(PlainEvaluator, Concatenates) {
  const ValueId in = x();
  const auto out =
      run({b_.concatenate({in, in}, 1), b_.concatenate({in, b_.slice(in, {0, 0}, {1, 3})}, 0)});
  EXPECT_THAT(out[0].real, ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_THAT(out[1].sizes, ElementsAre(3, 3));
  EXPECT_THAT(out[1].real, ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3));
}

TEST_F(PlainEvaluator, BroadcastsAlongNewAxesAndAxesOfOne) {
  const ValueId row = b_.input(DType::kF32, {3});
  const ValueId column = b_.input(DType::kF32, {2, 1});
  const auto out = run({b_.broadcast(row, {2, 3}, {1}), b_.broadcast(column, {2, 3}, {0, 1})},
                       {reals(DType::kF32, {3}, {1, 2, 3}), reals(DType::kF32, {2, 1}, {7, 8})});
  EXPECT_THAT(out[0].real, ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_THAT(out[1].real, ElementsAre(7, 7, 7, 8, 8, 8));
}

TEST_F(PlainEvaluator, ReducesAlongAnyAxes) {
  const ValueId in = x();
  const auto out = run({b_.sum(in, {0}), b_.sum(in, {1}), b_.sum(in, {}),
                        b_.reduce(ReduceFn::kProd, in, {1}), b_.reduce(ReduceFn::kMin, in, {0})});
  EXPECT_THAT(out[0].real, ElementsAre(5, 7, 9));
  EXPECT_THAT(out[1].real, ElementsAre(6, 15));
  EXPECT_THAT(out[2].real, ElementsAre(21));
  EXPECT_THAT(out[3].real, ElementsAre(6, 120));
  EXPECT_THAT(out[4].real, ElementsAre(1, 2, 3));
}

TEST_F(PlainEvaluator, FindsTheFirstOfEqualExtremesAndNan) {
  const ValueId in = b_.input(DType::kF32, {3, 3});
  const auto out = run({b_.reduce(ReduceFn::kArgMax, in, {1}),
                        b_.reduce(ReduceFn::kArgMin, in, {1}), b_.amax(in, {1})},
                       {reals(DType::kF32, {3, 3}, {1, 2, 2, 3, kNan, kNan, 0.0, -0.0, 0.0})});
  EXPECT_THAT(out[0].integer, ElementsAre(1, 1, 0));
  EXPECT_THAT(out[1].integer, ElementsAre(0, 1, 0));
  EXPECT_THAT(out[2].real, ElementsAre(2, IsNan(), 0));
}

TEST_F(PlainEvaluator, HasTheIdentitiesOfEmptyReductions) {
  const ValueId in = b_.input(DType::kF32, {2, 0});
  const ValueId i = b_.input(DType::kI32, {0});
  const ValueId flags = b_.input(DType::kBool, {0});
  const auto [mean, m2] = b_.welford(in, {1});
  const auto [most, sum] = b_.logsumexp_pair(in, {1});
  const auto out =
      run({b_.sum(in, {1}), b_.reduce(ReduceFn::kProd, in, {1}), b_.amax(in, {1}),
           b_.reduce(ReduceFn::kArgMax, in, {1}), mean, m2, most, sum,
           b_.reduce(ReduceFn::kMax, i, {0}), b_.reduce(ReduceFn::kMin, i, {0}),
           b_.reduce(ReduceFn::kAny, flags, {0}), b_.reduce(ReduceFn::kAll, flags, {0})},
          {reals(DType::kF32, {2, 0}, {}), integers(DType::kI32, {0}, {}),
           integers(DType::kBool, {0}, {})});
  EXPECT_THAT(out[0].real, ElementsAre(0, 0));
  EXPECT_THAT(out[1].real, ElementsAre(1, 1));
  EXPECT_THAT(out[2].real, ElementsAre(-kInfinity, -kInfinity));
  EXPECT_THAT(out[3].integer, ElementsAre(0, 0));
  EXPECT_THAT(out[4].real, ElementsAre(0, 0));
  EXPECT_THAT(out[5].real, ElementsAre(0, 0));
  EXPECT_THAT(out[6].real, ElementsAre(-kInfinity, -kInfinity));
  EXPECT_THAT(out[7].real, ElementsAre(0, 0));
  EXPECT_THAT(out[8].integer, ElementsAre(-2147483648LL));
  EXPECT_THAT(out[9].integer, ElementsAre(2147483647LL));
  EXPECT_THAT(out[10].integer, ElementsAre(0));
  EXPECT_THAT(out[11].integer, ElementsAre(1));
}

TEST_F(PlainEvaluator, SumsOfIntegersWrapAround) {
  const ValueId in = b_.input(DType::kI32, {2});
  const auto out = run({b_.sum(in, {0}), b_.reduce(ReduceFn::kProd, in, {0})},
                       {integers(DType::kI32, {2}, {2147483647, 2})});
  EXPECT_THAT(out[0].integer, ElementsAre(-2147483647LL));
  EXPECT_THAT(out[1].integer, ElementsAre(-2));
}

TEST_F(PlainEvaluator, TakesMomentsInTwoPasses) {
  const ValueId in = b_.input(DType::kF32, {2, 4});
  const auto [mean, m2] = b_.welford(in, {1});
  // 0.1 in f32, four times: its deviations from its mean are none.
  const double tenth = static_cast<double>(0.1F);
  const auto out =
      run({mean, m2}, {reals(DType::kF32, {2, 4}, {1, 2, 3, 6, tenth, tenth, tenth, tenth})});
  EXPECT_THAT(out[0].real, ElementsAre(3, tenth));
  EXPECT_THAT(out[1].real, ElementsAre(14, 0));
}

// More bits together than a long double has.
TEST_F(PlainEvaluator, GivesManyEqualDoublesTheirOwnMean) {
  const ValueId in = b_.input(DType::kF64, {4099});
  const auto [mean, m2] = b_.welford(in, {0});
  const double third = 1e40 / 3.0;
  const auto out = run({mean, m2}, {reals(DType::kF64, {4099}, std::vector<double>(4099, third))});
  EXPECT_THAT(out[0].real, ElementsAre(third));
  EXPECT_THAT(out[1].real, ElementsAre(0));
}

TEST_F(PlainEvaluator, SumsExponentialsByTheFormula) {
  const ValueId in = b_.input(DType::kF32, {4, 2});
  const auto [most, sum] = b_.logsumexp_pair(in, {1});
  const auto out = run(
      {most, sum}, {reals(DType::kF32, {4, 2},
                          {0.0, 0.0, -kInfinity, -kInfinity, kInfinity, 1.0, -kInfinity, 3.0})});
  EXPECT_THAT(out[0].real, ElementsAre(0, -kInfinity, kInfinity, 3));
  EXPECT_THAT(out[1].real, ElementsAre(2, IsNan(), IsNan(), 1));
}

TEST_F(PlainEvaluator, TakesZeroOutsideOfTheAxis) {
  const ValueId in = x();
  const ValueId rows = b_.input(DType::kI64, {2});
  const ValueId columns = b_.input(DType::kI32, {3});
  const auto out =
      run({b_.take(in, rows, 1), b_.take(in, columns, 0)},
          {reals(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}), integers(DType::kI64, {2}, {2, 3}),
           integers(DType::kI32, {3}, {1, -1, 0})});
  EXPECT_THAT(out[0].real, ElementsAre(3, 0));
  EXPECT_THAT(out[1].real, ElementsAre(4, 0, 3));
}

TEST_F(PlainEvaluator, CountsAndMultipliesExtents) {
  const Extent rows = b_.symbol("rows");
  const ValueId in = b_.input(DType::kF32, {rows, 3});
  const auto out =
      run({b_.iota({2, 3}, 1, DType::kI32), b_.iota({rows}, 0, DType::kF32),
           b_.element_count(in, {0, 1})},
          {reals(DType::kF32, {4, 3}, std::vector<double>(12))}, {.symbol_sizes = {4}});
  EXPECT_THAT(out[0].integer, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(out[1].real, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(out[2].real, ElementsAre(12));
}

TEST_F(PlainEvaluator, SelectsTestsAndCasts) {
  const ValueId in = x();
  const ValueId large = b_.pointwise(PointwiseFn::kGt, {in, b_.constant(3.0)});
  const auto out = run({large, b_.select(large, in, b_.neg(in)), b_.cast(in, DType::kI8),
                        b_.cast(b_.div(in, b_.constant(3.0)), DType::kBF16)});
  EXPECT_THAT(out[0].integer, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(out[1].real, ElementsAre(-1, -2, -3, 4, 5, 6));
  EXPECT_THAT(out[2].integer, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(out[3].real[0], 0.333984375);  // 171 / 512, the bf16 next to a third.
}

TEST_F(PlainEvaluator, RoundsConstantsAndFunctionsToSinglePrecision) {
  const auto out = run({b_.exp(x())});
  EXPECT_EQ(out[0].real[0], static_cast<double>(static_cast<float>(std::exp(1.0))));
  EXPECT_THAT(out[0].real[5], DoubleNear(403.428793, 1e-4));
}

TEST_F(PlainEvaluator, RunsCallsWithBoundSizes) {
  const Extent rows = b_.symbol("rows");
  const ValueId in = b_.input(DType::kF32, {rows});
  const auto results = b_.external("twice", {in}, {{DType::kF32, {rows, 2}}});
  const PlainCall twice = [](const ExternalOp& op, std::span<const PlainTensor> operands) {
    EXPECT_EQ(op.name, "twice");
    EXPECT_EQ(op.results[0].shape, (Shape{Extent(2), Extent(2)}));
    PlainTensor out{.type = DType::kF32, .sizes = {2, 2}};
    for (const double element : operands[0].real) out.real.insert(out.real.end(), 2, element);
    return std::vector{out};
  };
  const auto out =
      run({results[0]}, {reals(DType::kF32, {2}, {5, 6})}, {.symbol_sizes = {2}}, twice);
  EXPECT_THAT(out[0].real, ElementsAre(5, 5, 6, 6));
}

}  // namespace sinter::plain_evaluator_test
