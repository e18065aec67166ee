// Mistakes in calls of FusionBuilder: each throws a SinterException with an InvalidFusion error.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/training_composites.h"
#include "tests/errors/error_expectations.h"

namespace sinter::builder_errors_test {

class BuilderErrorTest : public ::testing::Test {
 protected:
  /// The call throws an InvalidFusion error with these details.
  template <class Call>
  static void expect_invalid(Call call, ExpectedError expected,
                             std::source_location where = std::source_location::current()) {
    expected.kind = ErrorKind::kInvalidFusion;
    expect_error(thrown_by(call), expected, where);
  }

  FusionBuilder b_{"f"};
  Extent rows_ = b_.symbol("rows");
  Extent cols_ = b_.symbol("cols");
  ValueId x_ = b_.input(DType::kF32, {rows_, cols_}, "x");
  ValueId row_ = b_.input(DType::kF32, {cols_}, "row");
};

TEST_F(BuilderErrorTest, AValueOfNobody) {
  expect_invalid([&] { b_.neg(ValueId{}); },
                 {.text = "%v? is not a value of fusion 'f'", .values = {ValueId{}}});
}

TEST_F(BuilderErrorTest, AValueOfAnotherBuilder) {
  expect_invalid([&] { b_.add(x_, ValueId{40}); },
                 {.text = "%v40 is not a value of fusion 'f'", .values = {ValueId{40}}});
}

TEST_F(BuilderErrorTest, ASymbolOfAnotherBuilder) {
  expect_invalid([&] { b_.input(DType::kF32, {Extent(SymbolId{9})}); },
                 {.text = "extent $9 is not a symbol of this fusion"});
}

/// Ids are numbers from 0 in every builder, so another one's may exist here too.
TEST_F(BuilderErrorTest, AValueOfAnotherBuilderThatExistsHereToo) {
  FusionBuilder other("other");
  const Extent rows = other.symbol("rows");
  const Extent cols = other.symbol("cols");
  const ValueId foreign = other.input(DType::kF32, {rows, cols}, "x");
  const ValueId index = b_.input(DType::kI64, {rows_}, "index");
  const ValueId y = b_.neg(x_);
  ASSERT_EQ(foreign, x_) << "within range";
  const Fusion before = b_.fusion();
  const std::vector<std::function<void()>> calls = {
      [&] { (void)b_.value(foreign); },
      [&] { (void)b_.axes_of(foreign, {0}); },
      [&] { b_.add(x_, foreign); },
      [&] { b_.cast(foreign, DType::kBF16); },
      [&] { b_.cast(foreign, DType::kF32); },
      [&] {
        b_.broadcast(foreign, {rows_, cols_}, {0, 1});
      },
      [&] { b_.broadcast_over(x_, foreign, {}); },
      [&] { b_.sum(foreign, {1}); },
      [&] { b_.welford(foreign, {1}); },
      [&] { b_.logsumexp_pair(foreign, {1}); },
      [&] { b_.take(foreign, index, 1); },
      [&] { b_.take(x_, foreign, 1); },
      [&] {
        b_.permute(foreign, {1, 0});
      },
      [&] {
        b_.reshape(foreign, {rows_, cols_});
      },
      [&] {
        b_.slice(foreign, {0, 0}, {-1, -1});
      },
      [&] {
        b_.concatenate({x_, foreign}, 0);
      },
      [&] {
        b_.pad(foreign, {0, 0}, {0, 1});
      },
      [&] {
        b_.external("call", {foreign}, {{DType::kF32, {rows_}}});
      },
      [&] { b_.named(foreign, "name"); },
      [&] { b_.output(foreign); },
      [&] { b_.output(y, "y", {.alias = foreign}); },
      [&] { (void)b_.element_count(foreign, {1}); },
      [&] { b_.append(CastOp{}, {foreign}, DType::kBF16, {}); },
      [&] { softmax(b_, foreign); },
      [&] { mean(b_, foreign); },
      [&] { layer_norm(b_, foreign); },
      [&] { batch_statistics(b_, foreign); },
      [&] { cross_entropy(b_, foreign, index); },
      [&] { rotary_embedding(b_, foreign, x_, x_); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    expect_invalid(calls[i], {.text = "%v0 was made by another builder than that of fusion 'f'",
                              .values = {foreign}});
    EXPECT_EQ(b_.fusion(), before);
  }
}

TEST_F(BuilderErrorTest, ASymbolOfAnotherBuilderThatExistsHereToo) {
  FusionBuilder other("other");
  const Extent foreign = other.symbol("tokens");
  ASSERT_EQ(foreign, rows_) << "within range";
  const std::vector<std::function<void()>> calls = {
      [&] { b_.input(DType::kF32, {foreign}); },
      [&] {
        b_.input(DType::kF32, {rows_, cols_}, "y", {.strides = {foreign, 1}});
      },
      [&] { b_.iota({foreign}, 0); },
      [&] {
        b_.broadcast(row_, {foreign, cols_}, {1});
      },
      [&] { b_.reshape(row_, {foreign}); },
      [&] {
        b_.external("call", {}, {{DType::kF32, {foreign}}});
      },
      [&] { b_.append(ExtentOp{{foreign}}, {}, DType::kI64, {}); },
      [&] {
        b_.output(b_.neg(x_), "y", {.strides = {foreign, 1}});
      },
      [&] {
        const ValueId seed = b_.input(DType::kI64, {});
        uniform(b_, {foreign}, seed, seed);
      },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    expect_invalid(calls[i],
                   {.text = "a symbol was declared by another builder than that of fusion 'f'"});
  }
}

TEST_F(BuilderErrorTest, WhatIsBuiltAndCopiesOfTheBuilderHaveItsIds) {
  const ValueId y = b_.neg(x_);
  b_.output(y);
  const Fusion fusion = b_.build();
  EXPECT_EQ(fusion.outputs.front(), y);
  FusionBuilder copy = b_;
  copy.output(copy.exp(y));
  EXPECT_EQ(copy.build().outputs.size(), 2U);
  // Ids of a graph belong to no builder.
  EXPECT_EQ(b_.abs(fusion.inputs.front()).index, 3U);
}

TEST_F(BuilderErrorTest, AxesOfCompositesThatAreNone) {
  for (const int axis : {2, -3, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    SCOPED_TRACE(axis);
    const std::vector<std::function<void()>> calls = {
        [&] { mean(b_, x_, {axis}); },
        [&] { variance(b_, x_, {axis}); },
        [&] { softmax(b_, x_, axis); },
        [&] { logsumexp(b_, x_, {axis}); },
        [&] { layer_norm(b_, x_, {.axes = {axis}}); },
        [&] { rms_norm(b_, x_, {.axes = {axis}}); },
        [&] { batch_statistics(b_, x_, axis); },
        [&] { bias_gradient(b_, x_, {axis}); },
    };
    for (size_t i = 0; i < calls.size(); ++i) {
      SCOPED_TRACE(i);
      const Error error = thrown_by(calls[i]);
      EXPECT_EQ(error.kind, ErrorKind::kInvalidFusion);
      // Of x, or of what was computed from it.
      EXPECT_EQ(error.message.find(fmt::format("axis {} is outside %v", axis)), 0U)
          << error.message;
      EXPECT_EQ(error.measured, axis);
      EXPECT_EQ(error.limit, 1);
    }
  }
}

TEST_F(BuilderErrorTest, StatisticsOfNothingBesideTheChannels) {
  expect_invalid([&] { batch_statistics(b_, row_); },
                 {.text = "%v1 has no axis beside its channels", .values = {row_}});
}

TEST_F(BuilderErrorTest, ASymbolThatIsNoIdentifier) {
  expect_invalid([&] { b_.symbol("2d"); }, {.text = "symbol name '2d' is not an identifier"});
}

TEST_F(BuilderErrorTest, ASymbolDeclaredTwice) {
  expect_invalid([&] { b_.symbol("rows"); }, {.text = "symbol 'rows' is declared twice"});
}

TEST_F(BuilderErrorTest, AHintThatBreaksItsPromise) {
  expect_invalid([&] { b_.symbol("n", 12, 8); }, {.text = "symbol 'n' has hint 12 and divisor 8"});
}

TEST_F(BuilderErrorTest, ShapesThatDoNotBroadcast) {
  const ValueId column = b_.input(DType::kF32, {rows_});
  expect_invalid(
      [&] { b_.add(x_, column); },
      {.text = "shapes do not broadcast: extent rows of %v2 against cols", .values = {x_, column}});
}

TEST_F(BuilderErrorTest, TooFewOperands) {
  expect_invalid(
      [&] {
        b_.pointwise(PointwiseFn::kFma, {x_, x_});
      },
      {.text = "fma takes 3 operands, not 2", .values = {x_, x_}, .measured = 2, .limit = 3});
}

TEST_F(BuilderErrorTest, NoOperandsAtAll) {
  expect_invalid([&] { b_.pointwise(PointwiseFn::kSelect, {}); },
                 {.text = "select takes 3 operands, not 0", .measured = 0, .limit = 3});
}

TEST_F(BuilderErrorTest, AnAxisBeyondTheRank) {
  expect_invalid(
      [&] { b_.sum(x_, {2}); },
      {.text = "axis 2 is outside %v0 of rank 2", .values = {x_}, .measured = 2, .limit = 1});
}

TEST_F(BuilderErrorTest, AnAxisBeforeTheFirst) {
  expect_invalid(
      [&] { b_.sum(x_, {-3}); },
      {.text = "axis -3 is outside %v0 of rank 2", .values = {x_}, .measured = -3, .limit = 1});
}

TEST_F(BuilderErrorTest, AnAxisNamedTwiceInTwoWays) {
  expect_invalid(
      [&] {
        b_.sum(x_, {1, -1});
      },
      {.text = "axis 1 of %v0 is named twice", .values = {x_}});
}

TEST_F(BuilderErrorTest, AReductionOfAScalar) {
  const ValueId scalar = b_.sum(x_, {});
  expect_invalid([&] { b_.sum(scalar, {}); },
                 {.text = "reduce.sum of f32 names no axes", .values = {scalar}});
}

TEST_F(BuilderErrorTest, AFractionAsAnInteger) {
  expect_invalid([&] { b_.constant(0.5, DType::kI32); },
                 {.text = "0.5 is not an exact value of i32"});
}

TEST_F(BuilderErrorTest, NanAsAnInteger) {
  expect_invalid([&] { b_.constant(std::numeric_limits<double>::quiet_NaN(), DType::kI64); },
                 {.text = "nan is not an exact value of i64"});
}

TEST_F(BuilderErrorTest, AConstantBeyondItsType) {
  expect_invalid([&] { b_.constant_integer(-1, DType::kU8); }, {.text = "-1 is not a value of u8"});
}

TEST_F(BuilderErrorTest, AnIotaAlongNoAxis) {
  expect_invalid([&] { b_.iota({rows_}, 1); },
                 {.text = "iota names axis 1 of a tensor of rank 1", .measured = 1, .limit = 0});
}

TEST_F(BuilderErrorTest, ATakeByAnIndexOfTheWrongShape) {
  const ValueId index = b_.input(DType::kI32, {cols_});
  expect_invalid(
      [&] { b_.take(x_, index, 1); },
      {.text = "needs an index of shape i32[rows], not i32[cols]", .values = {x_, index}});
}

TEST_F(BuilderErrorTest, APermutationThatLeavesAnAxisOut) {
  expect_invalid([&] { b_.permute(x_, {0}); },
                 {.text = "(0) is not an order of the axes of f32[rows, cols]", .values = {x_}});
}

TEST_F(BuilderErrorTest, AReshapeToAnotherNumberOfElements) {
  const ValueId fixed = b_.input(DType::kF32, {4, 6});
  expect_invalid(
      [&] {
        b_.reshape(fixed, {5, 5});
      },
      {.text = "reshape of f32[4, 6] to f32[5, 5] changes the number of elements",
       .values = {fixed},
       .measured = 25,
       .limit = 24});
}

TEST_F(BuilderErrorTest, ASliceWithTooFewBounds) {
  expect_invalid(
      [&] { b_.slice(x_, {0}, {4}); },
      {.text = "slice of f32[rows, cols] has 1 starts, 1 stops and 1 steps", .values = {x_}});
}

TEST_F(BuilderErrorTest, ASliceThatStartsBehindItsEnd) {
  const ValueId fixed = b_.input(DType::kF32, {8});
  expect_invalid([&] { b_.slice(fixed, {6}, {2}); },
                 {.text = "slice of f32[8] takes 6:2:1 along axis 0", .values = {fixed}});
}

TEST_F(BuilderErrorTest, AConcatenateOfNothing) {
  expect_invalid(
      [&] { b_.concatenate({}, 0); },
      {.text = "concatenate takes at least 1 operand, not 0", .measured = 0, .limit = 1});
}

TEST_F(BuilderErrorTest, AConcatenateAlongASymbol) {
  expect_invalid(
      [&] {
        b_.concatenate({x_, x_}, 1);
      },
      {.text = "concatenate of f32[rows, cols] leaves an extent that has no name on axis 1",
       .values = {x_, x_}});
}

TEST_F(BuilderErrorTest, APadWithAValueOfAnotherType) {
  const ValueId fixed = b_.input(DType::kI32, {8});
  expect_invalid([&] { b_.pad(fixed, {0}, {1}, 0.5); },
                 {.text = "0.5 is not an exact value of i32"});
}

TEST_F(BuilderErrorTest, APadOfFewerThanNoElements) {
  const ValueId fixed = b_.input(DType::kF32, {8});
  expect_invalid([&] { b_.pad(fixed, {0}, {-2}); },
                 {.text = "pad of f32[8] adds 0 and -2 elements along axis 0",
                  .values = {fixed},
                  .measured = -2,
                  .limit = 0});
}

TEST_F(BuilderErrorTest, AnExternalCallWithoutAName) {
  expect_invalid(
      [&] {
        b_.external("", {x_}, {{DType::kF32, {rows_}}});
      },
      {.text = "an external call has no name", .values = {x_}});
}

TEST_F(BuilderErrorTest, AnExternalCallWithoutResults) {
  expect_invalid([&] { b_.external("gemm", {x_}, {}); },
                 {.text = "external call 'gemm' declares no results", .values = {x_}});
}

TEST_F(BuilderErrorTest, AnExternalCallOfAnUnknownSymbol) {
  expect_invalid(
      [&] {
        b_.external("gemm", {}, {{DType::kF32, {Extent(SymbolId{9})}}});
      },
      {.text = "extent $9 is not a symbol of this fusion"});
}

TEST_F(BuilderErrorTest, AnExternalCallOfNineAxes) {
  expect_invalid(
      [&] {
        b_.external("gemm", {}, {{DType::kF32, Shape(9, cols_)}});
      },
      {.text = "a shape of rank 9 is beyond the limit", .measured = 9, .limit = 8});
}

TEST_F(BuilderErrorTest, AnExternalCallOfANegativeExtent) {
  expect_invalid(
      [&] {
        b_.external("gemm", {x_}, {{DType::kF32, {rows_, Extent(-4)}}});
      },
      {.text = "is negative", .values = {x_}, .measured = -4, .limit = 0});
}

TEST_F(BuilderErrorTest, DropoutOfEverything) {
  const ValueId seed = b_.input(DType::kI64, {});
  expect_invalid([&] { dropout(b_, x_, 1.0, seed, seed); }, {.text = "dropout with probability 1"});
  expect_invalid([&] { dropout_backward(b_, x_, -0.25, seed, seed); },
                 {.text = "dropout with probability -0.25"});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_invalid([&] { dropout(b_, x_, nan, seed, seed); },
                 {.text = "dropout with probability nan"});
}

TEST_F(BuilderErrorTest, ABroadcastBackOverTheWrongAxes) {
  expect_invalid([&] { b_.broadcast_over(row_, x_, {1}); },
                 {.text = "axis 0 of extent cols cannot become rows", .values = {row_}});
}

TEST_F(BuilderErrorTest, AnAlignmentOfZero) {
  expect_invalid([&] { b_.input(DType::kF64, {8}, "y", {.alignment = 0}); },
                 {.text = "an alignment of 0 bytes does not suit f64", .measured = 0, .limit = 8});
}

TEST_F(BuilderErrorTest, ATensorOfNineAxes) {
  expect_invalid([&] { b_.broadcast(row_, Shape(9, cols_), {8}); },
                 {.text = "a shape of rank 9 is beyond the limit",
                  .values = {row_},
                  .measured = 9,
                  .limit = 8});
}

TEST_F(BuilderErrorTest, AnInputAsOutput) {
  expect_invalid([&] { b_.output(x_); }, {.text = "input %v0 cannot be an output", .values = {x_}});
}

TEST_F(BuilderErrorTest, AnOutputDeclaredTwice) {
  const ValueId y = b_.neg(x_);
  b_.output(y);
  expect_invalid([&] { b_.output(y); }, {.text = "%v2 is already an output", .values = {y}});
}

TEST_F(BuilderErrorTest, NoOutputs) {
  expect_invalid([&] { (void)b_.build(); }, {.text = "fusion 'f' has no outputs"});
}

TEST_F(BuilderErrorTest, AMistakeLeavesTheGraphAsItWas) {
  const Fusion before = b_.fusion();
  expect_invalid(
      [&] {
        b_.permute(x_, {1, 1});
      },
      {.text = "(1, 1) is not an order of the axes", .values = {x_}});
  EXPECT_EQ(b_.fusion(), before);
}

}  // namespace sinter::builder_errors_test
