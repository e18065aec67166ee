#include "runtime/check/row_repetition.h"

#include <gmock/gmock.h>

#include <cmath>

#include "fusion_ir/fusion_builder.h"
#include "runtime/oracle/oracle.h"
#include "tests/support/canned_fusions.h"

namespace sinter::row_repetition_test {

/// Name of the symbol found; empty for none.
std::string slicewise_name(const Fusion& fusion) {
  const auto symbol = slicewise_symbol(fusion);
  return symbol ? fusion.symbols[*symbol].name : "";
}

TEST(RowRepetition, FindsTheRowsOfNormsAndLosses) {
  for (const char* name : {"rms_norm", "layer_norm", "softmax", "cross_entropy", "bias_gelu",
                           "dynamic_int8_quant", "strided_input"}) {
    EXPECT_EQ(slicewise_name(find_canned_fusion(name)->build()), "rows") << name;
  }
}

TEST(RowRepetition, FindsNothingWhereSlicesDependOnEachOtherOrOnTheirPlace) {
  for (const char* name : {"column_sum", "full_sum", "transpose_2d", "slice_rows", "iota_mask",
                           "layer_norm_backward", "batch_norm_statistics"}) {
    EXPECT_EQ(slicewise_name(find_canned_fusion(name)->build()), "") << name;
  }
}

TEST(RowRepetition, ASizeThatIsAskedForDoesNotRepeat) {
  FusionBuilder b;
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kF32, {rows, 4});
  b.output(b.div(x, b.element_count(x, {0})));
  EXPECT_EQ(slicewise_name(b.build()), "");
}

TEST(RowRepetition, AGatherAlongTheRowsDoesNotRepeat) {
  FusionBuilder b;
  const Extent rows = b.symbol("rows");
  const Extent picks = b.symbol("picks");
  const ValueId x = b.input(DType::kF32, {rows});
  const ValueId index = b.input(DType::kI32, {picks});
  b.output(b.take(b.broadcast(x, {rows, picks}, {0}), index, 0));
  // What is picked repeats along the picks, though.
  EXPECT_NE(slicewise_name(b.build()), "rows");
}

TEST(RowRepetition, JoinsWithinARowRepeatButCallsMayDoAnything) {
  FusionBuilder b;
  const Extent rows = b.symbol("rows");
  const ValueId x = b.input(DType::kF32, {rows, 4});
  const ValueId joined = b.pad(b.concatenate({x, b.exp(x)}, 1), {0, 1}, {0, 0});
  b.output(joined);
  EXPECT_EQ(slicewise_name(b.build()), "rows");
  b.output(b.external("sort", {x}, {{DType::kF32, {rows, 4}}})[0]);
  EXPECT_EQ(slicewise_name(b.build()), "");
}

struct Period {
  int64_t rows, budget, expected;
};

TEST(RowRepetition, RowsOfOneOperandOfAContractionAreSlicesAndReducedOnesAreNot) {
  const auto found = [](std::string_view equation, bool right_has_rows) {
    FusionBuilder b;
    const Extent rows = b.symbol("rows");
    const ValueId x = b.input(DType::kF32, {rows, 4});
    const ValueId w = b.input(DType::kF32, right_has_rows ? Shape{rows, 4} : Shape{3, 4});
    b.output(b.contract(equation, x, w));
    return slicewise_name(b.build());
  };
  EXPECT_EQ(found("mk,nk->mn", false), "rows");
  EXPECT_EQ(found("mk,mk->m", true), "rows") << "a batch";
  EXPECT_EQ(found("mk,nk->nm", false), "") << "rows are not outermost";
  EXPECT_EQ(found("km,kn->mn", true), "") << "rows are reduced";
  EXPECT_EQ(found("mk,nk->mn", true), "") << "every row meets every other";
  EXPECT_EQ(found("mk,mk->k", true), "");
}

TEST(RowRepetition, SlicesOfAContractionRepeatWithItsLeftOperand) {
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {12, 4});
  b.output(b.exp(b.contract("mk,nk->mn", x, b.input(DType::kF32, {3, 4}))));
  const Fusion fusion = b.build();
  const auto sliced = find_slices(fusion, Binding{});
  ASSERT_TRUE(sliced);
  EXPECT_EQ(sliced->slices, 12);
  EXPECT_EQ(sliced->axes.size(), 1U);
  const auto at = [&](size_t input) {
    return sliced->fusion.values[sliced->fusion.inputs[input]].shape.front();
  };
  EXPECT_TRUE(at(0).is_symbol());
  EXPECT_EQ(at(1), Extent(3)) << "every slice reads all of it";
}

TEST(RowRepetition, PeriodIsOddWithinBudget) {
  // Every row has ten elements of input and ten of output.
  for (const Period& p : {Period{1000, 2000, 99}, Period{1000, 1999, 99}, Period{1000, 2020, 101},
                          Period{1000, 1, 1}, Period{1000, 1 << 20, 1000}}) {
    FusionBuilder b;
    b.output(b.exp(b.input(DType::kF32, {p.rows, 10})));
    const auto sliced = find_slices(b.build(), {});
    ASSERT_TRUE(sliced);
    EXPECT_EQ(sliced->period(p.budget), p.expected) << p.rows << " rows, budget " << p.budget;
  }
}

TEST(RowRepetition, FindsTheRowsOfASegmentWhoseExtentsAreNumbers) {
  for (const char* name : {"rms_norm", "layer_norm", "softmax", "cross_entropy", "bias_gelu"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    // Columns are as many as rows, and are not taken for them.
    const Binding binding = bind_extents(fusion, {{"rows", 64}, {"cols", 64}}).value();
    const auto sliced = find_slices(specialize(fusion, binding), {});
    ASSERT_TRUE(sliced) << name;
    EXPECT_EQ(sliced->slices, 64);
    EXPECT_FALSE(sliced->has_totals);
    EXPECT_EQ(sliced->binding(9).sizes_of(sliced->fusion.values[sliced->fusion.inputs[0]].shape),
              (Sizes{9, 64}))
        << name;
  }
}

TEST(RowRepetition, RowsThatAReshapeJoinsOrSplitsAreSlices) {
  // Parts of two rows, and three parts of each row.
  for (const auto& [parts, slices] : {std::pair(32, 32), std::pair(192, 64)}) {
    FusionBuilder b;
    const ValueId x = b.input(DType::kF32, {64, 96});
    b.output(b.sum(b.reshape(b.exp(x), {parts, 64 * 96 / parts}), {1}));
    const auto sliced = find_slices(b.build(), {});
    ASSERT_TRUE(sliced);
    EXPECT_EQ(sliced->slices, slices);
    EXPECT_FALSE(sliced->has_totals);
    const Binding three = sliced->binding(3);
    const Fusion& fusion = sliced->fusion;
    EXPECT_EQ(three.sizes_of(fusion.values[fusion.inputs[0]].shape).front(), 3 * 64 / slices);
    EXPECT_EQ(three.sizes_of(fusion.values[fusion.outputs[0]].shape).front(), 3 * parts / slices);
  }
}

TEST(RowRepetition, TotalsOverTheRowsCanBeFolded) {
  for (const char* name : {"column_sum", "full_sum", "layer_norm_backward"}) {
    const Fusion fusion = find_canned_fusion(name)->build();
    const auto sliced =
        find_slices(fusion, bind_extents(fusion, {{"rows", 48}, {"cols", 32}}).value());
    ASSERT_TRUE(sliced) << name;
    EXPECT_EQ(sliced->slices, 48) << name;
    EXPECT_TRUE(sliced->has_totals) << name;
  }
}

TEST(RowRepetition, FindsNoSlicesWhereTheyDependOnTheirPlaceOrOnEachOther) {
  const Fusion transpose = find_canned_fusion("transpose_2d")->build();
  EXPECT_FALSE(
      find_slices(transpose, bind_extents(transpose, {{"rows", 32}, {"cols", 32}}).value()));
  // The n-th power of a product, the place of a maximum, and a row taken as a column.
  const auto has_slices = [](auto build) {
    FusionBuilder b;
    b.output(build(b, b.input(DType::kF32, {32, 32})));
    return find_slices(b.build(), {}).has_value();
  };
  EXPECT_TRUE(has_slices([](FusionBuilder& b, ValueId x) { return b.sum(x, {0}); }));
  EXPECT_FALSE(
      has_slices([](FusionBuilder& b, ValueId x) { return b.reduce(ReduceFn::kProd, x, {0}); }));
  EXPECT_FALSE(
      has_slices([](FusionBuilder& b, ValueId x) { return b.reduce(ReduceFn::kArgMax, x, {0}); }));
  EXPECT_FALSE(has_slices([](FusionBuilder& b, ValueId x) {
    return b.add(x, b.permute(x, {1, 0}));
  }));
  EXPECT_FALSE(has_slices([](FusionBuilder& b, ValueId x) {
    return b.mul(x, b.broadcast(b.sum(x, {1}), {32, 32}, {1}));
  }));
}

/// Rows of a matrix that lie over each other, as windows do, cannot be taken for slices of memory.
TEST(RowRepetition, RowsThatOverlapInMemoryAreNoSlices) {
  for (const int64_t stride : {1, 31, 32, 40}) {
    FusionBuilder b;
    const ValueId x = b.input(DType::kF32, {48, 32}, "x", {.strides = {stride, 1}});
    b.output(b.sum(x, {1}));
    EXPECT_EQ(find_slices(b.build(), {}).has_value(), stride >= 32) << stride;
  }
}

/// x, repeated along its outermost axis until it has `rows` of it.
HostTensor repeated(const HostTensor& x, int64_t rows) {
  Sizes sizes = x.sizes();
  sizes.front() = rows;
  HostTensor out = HostTensor::zeros(x.type(), sizes);
  for (int64_t i = 0; i < out.count(); ++i) out.set(i, x.get(i % x.count()));
  return out;
}

// What the oracle folds is what it finds where it is given everything.
TEST(RowRepetition, FoldedTotalsAreThoseOfRepeatedRows) {
  constexpr int64_t kRows = 103;
  constexpr int64_t kPeriod = 9;  // The last repeat ends early.
  FusionBuilder b;
  const ValueId x = b.input(DType::kF32, {kRows, 24});
  const ValueId e = b.exp(x);
  b.output(b.div(b.sum(e, {0, 1}), b.constant(7.0)));
  b.output(b.sum(e, {0}));
  b.output(b.reduce(ReduceFn::kMax, e, {0}));
  b.output(b.sub(e, b.broadcast(b.reduce(ReduceFn::kMax, e, {0}), {kRows, 24}, {1})));
  const auto sliced = find_slices(b.build(), {});
  ASSERT_TRUE(sliced);
  const HostTensor period = HostTensor::random(DType::kF32, {kPeriod, 24});
  const OracleResult folded = evaluate(sliced->fusion, sliced->binding(kPeriod), {&period, 1},
                                       {.whole = sliced->binding(kRows)});
  const HostTensor all = repeated(period, kRows);
  const OracleResult whole = evaluate(b.build(), {}, {&all, 1});
  for (size_t output = 0; output < folded.outputs.size(); ++output) {
    const OracleOutput& a = folded.outputs[output];
    const OracleOutput& z = whole.outputs[output];
    ASSERT_EQ(a.real.size(), output == 3 ? kPeriod * 24 : z.real.size());
    for (size_t i = 0; i < a.real.size(); ++i) {
      EXPECT_NEAR(a.real[i], z.real[i], 1e-6 * std::fabs(z.real[i])) << output << ", " << i;
      // Roundings that may be equal add up.
      EXPECT_GE(a.bound[i], z.bound[i] * (1.0 - 1e-9));
      EXPECT_LE(a.bound[i], z.bound[i] * std::sqrt(2.0 + kRows / kPeriod));
    }
  }
}

}  // namespace sinter::row_repetition_test
