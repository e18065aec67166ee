// Graph values that kernels compute: constants, indices, gathers with indices out of range, and
// values of a row, once a row.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "codegen/lower/tile_lowering.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::tile_values_test {

using Tensors = ScheduledKernel::Tensors;

constexpr std::string_view kElements =
    "schedule pointwise { threads_per_row 32 vector_width 2 unroll 1 }";

TEST(TileValuesTest, ConstantsHaveTheirType) {
  ScheduledKernel(R"(fusion @constants {
  %v0 x : f32[10] = input
  %v1 : f32 = constant 0.5
  %v2 : f32[10] = broadcast %v1 axes()
  %v3 y : f32[10] = mul %v0, %v2
  %v4 : i32 = constant -7
  %v5 : i32[10] = broadcast %v4 axes()
  %v6 : i32[10] = cast %v0
  %v7 z : i32[10] = add %v6, %v5
  return %v3, %v7
})",
                  kElements)
      .expect_outputs(
          [](const Tensors& in) -> Tensors {
            std::vector<float> y = in[0];
            std::vector<float> z = in[0];
            for (float& value : y) value *= 0.5F;
            for (float& value : z) value -= 7.0F;
            return {y, z};
          },
          1);
}

/// The coordinate along one axis, in whatever order the elements are walked.
TEST(TileValuesTest, AnIotaIsTheCoordinateOfItsAxis) {
  for (const int axis : {0, 1, 2}) {
    ScheduledKernel(fmt::format(R"(fusion @coordinates {{
  %v0 x : i64[3, 4, 6] = input
  %v1 : i64[3, 4, 6] = iota axis({})
  %v2 y : i64[3, 4, 6] = add %v0, %v1
  return %v2
}})",
                                axis),
                    kElements)
        .expect_outputs(
            [=](const Tensors& in) -> Tensors {
              std::vector<float> y = in[0];
              for (size_t i = 0; i < y.size(); ++i) {
                const size_t at = axis == 0 ? i / 24 : axis == 1 ? i / 6 % 4 : i % 6;
                y[i] += static_cast<float>(at);
              }
              return {y};
            },
            1);
  }
}

/// Indices are -4 to 4, of which 0 to 2 are in range.
TEST(TileValuesTest, AnIndexOutOfRangeGivesZero) {
  ScheduledKernel(R"(fusion @taken {
  %v0 x : f32[3, 20] = input
  %v1 i : i64[20] = input
  %v2 y : f32[20] = take %v0, %v1 axis(0)
  return %v2
})",
                  kElements)
      .expect_outputs(
          [](const Tensors& in) -> Tensors {
            std::vector<float> y(20);
            for (size_t i = 0; i < y.size(); ++i) {
              const float index = in[1][i];
              if (index >= 0.0F && index < 3.0F) y[i] = in[0][static_cast<size_t>(index) * 20 + i];
            }
            return {y};
          },
          1);
}

/// A pick from the row, of a value that is computed: y = x + (2 * x)[label].
TEST(TileValuesTest, AGatherBesideAReductionPicksFromComputedColumns) {
  constexpr int64_t kRows = 9;
  constexpr int64_t kColumns = 40;
  ScheduledKernel(R"(fusion @picked {
  %v0 x : f32[9, 40] = input
  %v1 label : i64[9] = input
  %v2 : f32[9, 40] = add %v0, %v0
  %v3 p : f32[9] = take %v2, %v1 axis(1)
  %v4 : f32[9] = reduce.sum %v0 over(1)
  %v5 y : f32[9] = sub %v4, %v3
  return %v5
})",
                  "schedule looped { threads_per_row 32 vector_width 4 }")
      .expect_outputs(
          [](const Tensors& in) -> Tensors {
            std::vector<float> y;
            for (int64_t row = 0; row < kRows; ++row) {
              const auto begin = in[0].begin() + row * kColumns;
              const float label = in[1][static_cast<size_t>(row)];
              const bool inside = label >= 0.0F && label < 40.0F;
              y.push_back(std::accumulate(begin, begin + kColumns, 0.0F) -
                          (inside ? 2.0F * begin[static_cast<int64_t>(label)] : 0.0F));
            }
            return {y};
          },
          1);
}

/// exp of a row's scale is computed once a row, not for each of its elements.
TEST(TileValuesTest, ValuesOfARowAreComputedOnce) {
  const ScheduledKernel kernel(R"(fusion @scaled {
  %v0 x : f32[9, 512] = input
  %v1 s : f32[9] = input
  %v2 : f32[9] = exp %v1
  %v3 : f32[9] = reduce.sum %v0 over(1)
  %v4 : f32[9] = mul %v2, %v3
  %v5 : f32[9, 512] = broadcast %v4 axes(0)
  %v6 y : f32[9, 512] = mul %v0, %v5
  return %v6
})",
                               "schedule looped { threads_per_row 32 vector_width 4 unroll 4 }");
  const kir::Kernel lowered = kernel.lowered();
  int64_t exponentials = 0;
  kir::for_each_stmt(lowered, lowered.body, [&](kir::StmtId id) {
    kir::for_each_expr(lowered.stmts[id].kind, [&](kir::ExprId expr) {
      const auto* call = std::get_if<kir::PointwiseExpr>(&lowered.exprs[expr].kind);
      exponentials += call != nullptr && call->fn == PointwiseFn::kExp ? 1 : 0;
    });
  });
  EXPECT_EQ(exponentials, 1);
}

}  // namespace sinter::tile_values_test
