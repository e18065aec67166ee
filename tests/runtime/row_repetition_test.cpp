#include "runtime/row_repetition.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "tests/support/canned_fusions.h"

namespace sinter {
namespace {

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
  int64_t rows, divisible_by, budget, expected;
};

TEST(RowRepetition, PeriodIsOddWithinBudgetAndDivisible) {
  constexpr int64_t kColumns = 10;
  // Every row has ten elements of input and ten of output.
  for (const Period& p :
       {Period{1000, 1, 2000, 99}, Period{1000, 1, 1999, 99}, Period{1000, 1, 2020, 101},
        Period{1000, 1, 1, 1}, Period{1000, 1, 1 << 20, 1000}, Period{1000, 4, 2000, 100},
        Period{1000, 4, 480, 20}, Period{1000, 8, 1, 8}, Period{0, 1, 100, 0}}) {
    FusionBuilder b;
    const Extent rows = b.symbol("rows", 0, p.divisible_by);
    b.output(b.exp(b.input(DType::kF32, {rows, kColumns})));
    const Fusion fusion = b.build();
    const Binding binding = bind_extents(fusion, {{"rows", p.rows}}).value();
    EXPECT_EQ(repetition_period(fusion, binding, SymbolId{0}, p.budget), p.expected)
        << p.rows << " rows, divisible by " << p.divisible_by << ", budget " << p.budget;
  }
}

}  // namespace
}  // namespace sinter
