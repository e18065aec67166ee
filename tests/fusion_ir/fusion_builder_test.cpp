#include "fusion_ir/fusion_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "fusion_ir/verifier.h"

namespace sinter::fusion_builder_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// The error that a call throws; a default one, with a failure recorded, if it throws none.
template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const SinterException& exception) {
    EXPECT_EQ(exception.error().kind, ErrorKind::kInvalidFusion);
    EXPECT_THAT(exception.error().remedy, Not(IsEmpty()));
    return exception.error();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

class FusionBuilderTest : public ::testing::Test {
 protected:
  [[nodiscard]] const Value& value(ValueId id) const { return b_.fusion().values[id]; }
  [[nodiscard]] std::string text(ValueId id) const {
    return text_of(b_.fusion(), value(id).type, value(id).shape);
  }
  /// Op names from the first to the last.
  [[nodiscard]] std::vector<std::string> op_texts() const {
    std::vector<std::string> texts;
    for (const Op& op : b_.fusion().ops) texts.emplace_back(text_of(op.kind));
    return texts;
  }

  FusionBuilder b_{"test"};
  Extent rows_ = b_.symbol("rows", 8, 2);
  Extent cols_ = b_.symbol("cols");
};

TEST_F(FusionBuilderTest, StorageTypesAreComputedInF32) {
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    const ValueId x = b_.input(type, {rows_});
    EXPECT_EQ(text(b_.exp(x)), "f32[rows]") << name_of(type);
  }
  const ValueId small = b_.input(DType::kI8, {rows_});
  EXPECT_EQ(text(b_.add(small, small)), "i32[rows]");
}

TEST_F(FusionBuilderTest, OperandsMeetAtTheStrongestType) {
  const std::vector<DType> strongest_first = {DType::kF64, DType::kF32, DType::kI64, DType::kI32};
  for (size_t i = 0; i < strongest_first.size(); ++i) {
    for (size_t j = i; j < strongest_first.size(); ++j) {
      const ValueId a = b_.input(strongest_first[i], {rows_});
      const ValueId b = b_.input(strongest_first[j], {rows_});
      EXPECT_EQ(value(b_.add(a, b)).type, strongest_first[i]);
      EXPECT_EQ(value(b_.add(b, a)).type, strongest_first[i]);
    }
  }
  const ValueId flag = b_.input(DType::kBool, {rows_});
  EXPECT_EQ(text(b_.mul(flag, b_.input(DType::kBF16, {rows_}))), "f32[rows]");
}

TEST_F(FusionBuilderTest, NothingIsInsertedWhereNothingIsNeeded) {
  const ValueId x = b_.input(DType::kF32, {rows_});
  EXPECT_EQ(b_.cast(x, DType::kF32), x);
  b_.add(x, x);
  EXPECT_EQ(op_texts(), (std::vector<std::string>{"input", "add"}));
}

TEST_F(FusionBuilderTest, ShapesBroadcastAsInNumPy) {
  const ValueId full = b_.input(DType::kF32, {rows_, cols_});
  const ValueId row = b_.input(DType::kF32, {cols_});
  const ValueId column = b_.input(DType::kF32, {rows_, 1});
  const ValueId scalar = b_.constant(2.0);
  EXPECT_EQ(text(b_.add(full, row)), "f32[rows, cols]");
  EXPECT_EQ(text(b_.add(column, full)), "f32[rows, cols]");
  EXPECT_EQ(text(b_.add(column, row)), "f32[rows, cols]");
  EXPECT_EQ(text(b_.mul(scalar, full)), "f32[rows, cols]");
  EXPECT_EQ(text(b_.add(scalar, scalar)), "f32");
  const Error error = error_of([&] { b_.add(row, b_.input(DType::kF32, {rows_})); });
  EXPECT_THAT(error.message, HasSubstr("extent rows"));
  EXPECT_THAT(error.message, HasSubstr("against cols"));
  EXPECT_EQ(error.values.size(), 2U);
}

TEST_F(FusionBuilderTest, SelectKeepsItsConditionBool) {
  const ValueId flag = b_.input(DType::kBool, {rows_, 1});
  const ValueId a = b_.input(DType::kBF16, {cols_});
  const ValueId b = b_.constant_integer(0, DType::kI32);
  EXPECT_EQ(text(b_.select(flag, a, b)), "f32[rows, cols]");
  EXPECT_THAT(error_of([&] { b_.select(a, a, a); }).message, HasSubstr("not bool"));
}

TEST_F(FusionBuilderTest, ComparisonsGiveBool) {
  const ValueId x = b_.input(DType::kF16, {rows_});
  const ValueId less = b_.pointwise(PointwiseFn::kLt, {x, b_.constant(0.0)});
  EXPECT_EQ(text(less), "bool[rows]");
  EXPECT_EQ(text(b_.pointwise(PointwiseFn::kIsNan, {x})), "bool[rows]");
  EXPECT_EQ(text(b_.pointwise(PointwiseFn::kNot, {less})), "bool[rows]");
}

TEST_F(FusionBuilderTest, FunctionsRefuseTypesTheyHaveNoMeaningFor) {
  const ValueId i = b_.input(DType::kI64, {rows_});
  const ValueId flag = b_.input(DType::kBool, {rows_});
  const ValueId x = b_.input(DType::kF32, {rows_});
  EXPECT_THAT(error_of([&] { b_.exp(i); }).message, HasSubstr("exp does not take i64"));
  EXPECT_THAT(error_of([&] { b_.add(flag, flag); }).message, HasSubstr("add does not take bool"));
  EXPECT_THAT(error_of([&] {
                b_.pointwise(PointwiseFn::kAnd, {x, x});
              }).message,
              HasSubstr("and does not take f32"));
  EXPECT_THAT(error_of([&] { b_.pointwise(PointwiseFn::kAdd, {x}); }).message,
              HasSubstr("add takes 2 operands, not 1"));
  EXPECT_THAT(error_of([&] { b_.pointwise(PointwiseFn::kSelect, {}); }).message,
              HasSubstr("select takes 3 operands, not 0"));
}

TEST_F(FusionBuilderTest, ReductionsPickTheirTypes) {
  const auto reduced = [&](ReduceFn fn, DType type) {
    return text(b_.reduce(fn, b_.input(type, {rows_, cols_}), {-1}));
  };
  EXPECT_EQ(reduced(ReduceFn::kSum, DType::kBF16), "f32[rows]");
  EXPECT_EQ(reduced(ReduceFn::kSum, DType::kF64), "f64[rows]");
  EXPECT_EQ(reduced(ReduceFn::kSum, DType::kU8), "i32[rows]");
  EXPECT_EQ(reduced(ReduceFn::kSum, DType::kBool), "i32[rows]");
  EXPECT_EQ(reduced(ReduceFn::kMax, DType::kI8), "i32[rows]");
  EXPECT_EQ(reduced(ReduceFn::kAny, DType::kBool), "bool[rows]");
  EXPECT_EQ(reduced(ReduceFn::kAll, DType::kF32), "bool[rows]");
  EXPECT_EQ(reduced(ReduceFn::kArgMax, DType::kF16), "i64[rows]");
}

TEST_F(FusionBuilderTest, ReductionAxes) {
  const ValueId x = b_.input(DType::kF32, {rows_, cols_, 4});
  EXPECT_EQ(text(b_.sum(x, {})), "f32");
  EXPECT_EQ(text(b_.sum(x, {2, 0})), "f32[cols]");
  EXPECT_EQ(text(b_.sum(x, {-1, -2})), "f32[rows]");
  const Error outside = error_of([&] { b_.sum(x, {3}); });
  EXPECT_EQ(outside.measured, 3);
  EXPECT_EQ(outside.limit, 2);
  EXPECT_EQ(outside.values, std::vector<ValueId>{x});
  EXPECT_THAT(error_of([&] { b_.sum(x, {1, -2}); }).message, HasSubstr("named twice"));
  EXPECT_THAT(error_of([&] { b_.sum(b_.constant(1.0), {}); }).message, HasSubstr("no axes"));
  EXPECT_EQ(error_of([&] { b_.reduce(ReduceFn::kArgMin, x, {0, 1}); }).limit, 1);
}

TEST_F(FusionBuilderTest, PairReductions) {
  const ValueId x = b_.input(DType::kBF16, {rows_, cols_});
  const auto [mean, m2] = b_.welford(x, {1});
  EXPECT_EQ(text(mean), "f32[rows]");
  EXPECT_EQ(text(m2), "f32[rows]");
  EXPECT_EQ(value(mean).def, value(m2).def);
  EXPECT_EQ(value(m2).result, 1U);
  const auto [max, sum] = b_.logsumexp_pair(x, {0});
  EXPECT_EQ(text(max), "f32[cols]");
  EXPECT_EQ(text(sum), "f32[cols]");
  error_of([&] { b_.welford(b_.input(DType::kI32, {rows_}), {0}); });
}

TEST_F(FusionBuilderTest, BroadcastOverUndoesAReduction) {
  const ValueId x = b_.input(DType::kF32, {rows_, cols_, 4});
  const ValueId back = b_.broadcast_over(b_.sum(x, {1}), x, {1});
  EXPECT_EQ(value(back).shape, value(x).shape);
  EXPECT_EQ(b_.fusion().def_as<BroadcastOp>(back)->axes, (std::vector<int>{0, 2}));
  error_of([&] { b_.broadcast_over(b_.sum(x, {1}), x, {0}); });
  error_of([&] { b_.broadcast(x, {rows_, cols_, 4}, {0, 1}); });
  error_of([&] { b_.broadcast(b_.sum(x, {2}), {rows_, cols_}, {1, 0}); });
}

TEST_F(FusionBuilderTest, TakeMatchesItsIndex) {
  const ValueId x = b_.input(DType::kBF16, {rows_, cols_});
  const ValueId labels = b_.input(DType::kU8, {rows_});
  EXPECT_EQ(text(b_.take(x, labels, -1)), "bf16[rows]");
  EXPECT_THAT(error_of([&] { b_.take(x, labels, 0); }).message, HasSubstr("needs an index"));
  EXPECT_THAT(error_of([&] { b_.take(x, b_.input(DType::kF32, {rows_}), 1); }).message,
              HasSubstr("take does not take f32"));
}

TEST_F(FusionBuilderTest, ShapeOps) {
  const ValueId x = b_.input(DType::kBF16, {rows_, cols_, 12});
  EXPECT_EQ(text(b_.permute(x, {2, 0, 1})), "bf16[12, rows, cols]");
  EXPECT_EQ(text(b_.permute(x, {0, -1, -2})), "bf16[rows, 12, cols]");
  error_of([&] { b_.permute(x, {0, 0, 1}); });
  error_of([&] { b_.permute(x, {0, 1}); });
  EXPECT_EQ(text(b_.reshape(x, {rows_, cols_, 3, 4})), "bf16[rows, cols, 3, 4]");
  error_of([&] { b_.reshape(x, {rows_, cols_, 3, 5}); });
  EXPECT_EQ(text(b_.iota({rows_, cols_}, -1)), "i64[rows, cols]");
  error_of([&] { b_.iota({rows_}, 1); });
  error_of([&] { b_.iota({rows_}, 0, DType::kBF16); });
}

TEST_F(FusionBuilderTest, SlicesRoundTheirLengthUp) {
  const ValueId x = b_.input(DType::kF32, {rows_, 10});
  EXPECT_EQ(text(b_.slice(x, {0, 1}, {-1, 9}, {1, 3})), "f32[rows, 3]");
  EXPECT_EQ(text(b_.slice(x, {1, 2}, {4, -1})), "f32[3, 8]");
  EXPECT_EQ(text(b_.slice(x, {0, 10}, {-1, 10})), "f32[rows, 0]");
  const Error error = error_of([&] { b_.slice(x, {0, 0}, {-1, 11}); });
  EXPECT_EQ(error.measured, 11);
  EXPECT_EQ(error.limit, 10);
  error_of([&] { b_.slice(x, {1, 0}, {-1, 10}); });  // rows - 1 has no name
  error_of([&] { b_.slice(x, {0, 5}, {-1, 4}); });
  error_of([&] { b_.slice(x, {0, 0}, {-1, 4}, {1, 0}); });
  error_of([&] { b_.slice(x, {0}, {-1}); });
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(text(b_.slice(x, {0, 0}, {huge, 10}, {huge, huge})), "f32[1, 1]");
}

TEST_F(FusionBuilderTest, ConcatenateJoinsConstantExtents) {
  const ValueId x = b_.input(DType::kBF16, {rows_, 4});
  const ValueId y = b_.input(DType::kBF16, {rows_, 6});
  EXPECT_EQ(text(b_.concatenate({x, y, x}, -1)), "bf16[rows, 14]");
  EXPECT_EQ(b_.fusion().def_as<ConcatenateOp>(b_.concatenate({x, y}, -1))->axis, 1);
  EXPECT_EQ(text(b_.concatenate({x}, 0)), "bf16[rows, 4]");  // Alone, it may be of any extent.
  EXPECT_EQ(error_of([&] { b_.concatenate({}, 0); }).limit, 1);
  EXPECT_THAT(error_of([&] {
                b_.concatenate({x, x}, 0);
              }).message,
              HasSubstr("leaves an extent that has no name on axis 0"));
  EXPECT_THAT(error_of([&] {
                const ValueId fixed = b_.input(DType::kBF16, {2, 4});
                b_.concatenate({fixed, y}, 0);
              }).message,
              HasSubstr("different shapes beside axis 0"));
  EXPECT_THAT(error_of([&] {
                b_.concatenate({x, b_.cast(y, DType::kF32)}, 1);
              }).message,
              HasSubstr("different types: bf16 and f32"));
  error_of([&] { b_.concatenate({x}, 2); });
  const ValueId huge = b_.input(DType::kI8, {std::numeric_limits<int64_t>::max()});
  EXPECT_THAT(error_of([&] {
                b_.concatenate({huge, huge}, 0);
              }).message,
              HasSubstr("do not fit 63 bits"));
}

TEST_F(FusionBuilderTest, PadGrowsConstantExtents) {
  const ValueId x = b_.input(DType::kBF16, {rows_, 4});
  const ValueId padded = b_.pad(x, {0, 1}, {0, 2}, 1.0 + 0x1p-9);
  EXPECT_EQ(text(padded), "bf16[rows, 7]");
  EXPECT_EQ(b_.fusion().def_as<PadOp>(padded)->value.real, 1.0);  // Rounded to the type.
  EXPECT_THAT(error_of([&] {
                b_.pad(x, {1, 0}, {0, 0});
              }).message,
              HasSubstr("leaves an extent that has no name on axis 0"));
  EXPECT_EQ(error_of([&] { b_.pad(x, {0, -1}, {0, 2}); }).measured, -1);
  EXPECT_THAT(error_of([&] { b_.pad(x, {0}, {0}); }).message, HasSubstr("1 lows and 1 highs"));
  EXPECT_THAT(error_of([&] {
                b_.pad(x, {0, std::numeric_limits<int64_t>::max()}, {0, 0});
              }).message,
              HasSubstr("does not fit 63 bits"));
  const ValueId bytes = b_.input(DType::kU8, {4});
  error_of([&] { b_.pad(bytes, {1}, {1}, -1.0); });
  error_of([&] { b_.pad(bytes, {1}, {1}, 0.5); });
}

TEST_F(FusionBuilderTest, ExternalCallsHaveTheirDeclaredResults) {
  const ValueId x = b_.input(DType::kBF16, {rows_, 4});
  const auto results =
      b_.external("gemm", {x, x}, {{DType::kBF16, {rows_, cols_}}, {DType::kI8, {}}}, {"y"});
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(text(results[0]), "bf16[rows, cols]");
  EXPECT_EQ(text(results[1]), "i8");
  EXPECT_EQ(value(results[0]).name, "y");
  EXPECT_EQ(value(results[1]).result, 1U);
  EXPECT_EQ(b_.external("none", {}, {{DType::kF32, {}}}).size(), 1U);
  EXPECT_THAT(error_of([&] {
                b_.external("", {x}, {{DType::kF32, {}}});
              }).message,
              HasSubstr("has no name"));
  EXPECT_THAT(error_of([&] { b_.external("f", {x}, {}); }).message, HasSubstr("no results"));
  error_of([&] { b_.external("f", {ValueId{77}}, {{DType::kF32, {}}}); });
  error_of([&] { b_.external("f", {}, {{DType::kF32, {SymbolId{99}}}}); });
  EXPECT_EQ(error_of([&] {
              b_.external("f", {}, {{DType::kF32, Shape(kMaxRank + 1, Extent(1))}});
            }).limit,
            static_cast<int64_t>(kMaxRank));
}

TEST_F(FusionBuilderTest, RandomFunctionsTakeIntegersAndGiveF32) {
  const ValueId seed = b_.input(DType::kI32, {});
  const ValueId index = b_.input(DType::kI64, {rows_, 4});
  const ValueId random = b_.pointwise(PointwiseFn::kPhiloxUniform, {seed, index});
  EXPECT_EQ(text(random), "f32[rows, 4]");
  const ValueId real = b_.input(DType::kF32, {});
  EXPECT_THAT(error_of([&] {
                b_.pointwise(PointwiseFn::kPhiloxUniform, {real, index});
              }).message,
              HasSubstr("philox_uniform does not take f32; it takes i64"));
}

TEST_F(FusionBuilderTest, ConstantsAreValuesOfTheirType) {
  const auto real = [&](ValueId id) { return b_.fusion().def_as<ConstantOp>(id)->real; };
  EXPECT_EQ(real(b_.constant(0.1)), static_cast<double>(0.1F));
  EXPECT_EQ(real(b_.constant(0.1, DType::kF64)), 0.1);
  EXPECT_EQ(real(b_.constant(1.0 + 0x1p-9, DType::kBF16)), 1.0);
  EXPECT_EQ(b_.fusion().def_as<ConstantOp>(b_.constant(3.0, DType::kI8))->integer, 3);
  error_of([&] { b_.constant(0.5, DType::kI32); });
  error_of([&] { b_.constant_integer(128, DType::kI8); });
  error_of([&] { b_.constant_integer(-1, DType::kU8); });
  error_of([&] { b_.constant_integer(2, DType::kBool); });
  error_of([&] { b_.append(ConstantOp{.real = 0.1}, {}, DType::kF32, {}); });
}

TEST_F(FusionBuilderTest, InputsStateTheirLayout) {
  const ValueId x = b_.input(DType::kF64, {rows_, 4}, "x", {.strides = {8, 2}, .alignment = 8});
  EXPECT_EQ(b_.fusion().inputs, std::vector<ValueId>{x});
  EXPECT_EQ(value(x).name, "x");
  error_of([&] { b_.input(DType::kF32, {rows_}, "", {.strides = {1, 1}}); });
  error_of([&] { b_.input(DType::kF32, {rows_}, "", {.strides = {-1}}); });
  error_of([&] { b_.input(DType::kF32, {-3}); });
  EXPECT_EQ(error_of([&] { b_.input(DType::kF64, {rows_}, "", {.alignment = 4}); }).limit, 8);
  error_of([&] { b_.input(DType::kF32, {rows_}, "", {.alignment = 24}); });
  error_of([&] { b_.input(DType::kF32, {rows_}, "", {.alignment = 0}); });
  const Error deep = error_of([&] { b_.input(DType::kF32, Shape(kMaxRank + 1, Extent(1))); });
  EXPECT_EQ(deep.limit, static_cast<int64_t>(kMaxRank));
  error_of([&] { b_.input(DType::kF32, {SymbolId{99}}); });
}

TEST_F(FusionBuilderTest, SymbolsAreDeclaredOnceAndCoherent) {
  EXPECT_THAT(error_of([&] { b_.symbol("rows"); }).message, HasSubstr("declared twice"));
  error_of([&] { b_.symbol("2rows"); });
  error_of([&] { b_.symbol("a", -1); });
  error_of([&] { b_.symbol("a", 0, 0); });
  error_of([&] { b_.symbol("a", 7, 2); });
  b_.symbol("a", 8, 2);  // A refused declaration does not use up the name.
}

TEST_F(FusionBuilderTest, OutputsAreDistinctResults) {
  const ValueId x = b_.input(DType::kF32, {rows_});
  EXPECT_THAT(error_of([&] { static_cast<void>(b_.build()); }).message, HasSubstr("no outputs"));
  const ValueId y = b_.neg(x);
  b_.output(y, "y");
  EXPECT_EQ(value(y).name, "y");
  EXPECT_THAT(error_of([&] { b_.output(y); }).message, HasSubstr("already"));
  EXPECT_THAT(error_of([&] { b_.output(x); }).message, HasSubstr("input"));
  error_of([&] { b_.output(ValueId{77}); });
  error_of([&] { b_.neg(ValueId{}); });
  EXPECT_TRUE(verify(b_.build()).empty());
}

TEST_F(FusionBuilderTest, ElementCountMultipliesTheNamedAxes) {
  const ValueId x = b_.input(DType::kBF16, {rows_, cols_, 4});
  const ValueId count = b_.element_count(x, {0, -1});
  EXPECT_EQ(text(count), "f32");
  const ValueId extent = b_.fusion().def_of(count).operands[0];
  EXPECT_EQ(b_.fusion().def_as<ExtentOp>(extent)->extents, (std::vector<Extent>{rows_, 4}));
}

}  // namespace sinter::fusion_builder_test
