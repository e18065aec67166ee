// Reductions over the rows of a product whose elements are stored, of whole numbers against loops:
// by warps, by warp groups, by warps of an epilogue, and of sliced K.

#include "codegen/lower/tile_partials.h"

#include <gmock/gmock.h>

#include "scheduler/schedule/accumulators.h"
#include "tests/codegen/product_kernel.h"

namespace sinter::tile_partials_test {

using ::testing::HasSubstr;

using Tensors = ScheduledKernel::Tensors;

/// Elements (x w^T) r, their sums over the rows and their maxima, to which something is added
/// behind all rows.
ScheduledKernel kernel_of(const ProductExtents& extents, const Schedule& schedule) {
  return {parsed_fusion(fmt::format(R"(fusion @columns {{
  %v0 x : bf16[{b}, {m}, {k}] = input
  %v1 w : bf16[{b}, {n}, {k}] = input
  %v2 r : f32[{b}, {m}, {n}] = input
  %v3 bias : f32[{n}] = input
  %v4 : f32[{b}, {m}, {n}] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 2, 3) over(3)
  %v5 y : f32[{b}, {m}, {n}] = mul %v4, %v2
  %v6 s : f32[{n}] = reduce.sum %v5 over(0, 1)
  %v7 : f32[{n}] = reduce.max %v4 over(0, 1)
  %v8 t : f32[{n}] = add %v7, %v3
  return %v5, %v6, %v8
}})",
                                    fmt::arg("b", extents.batches), fmt::arg("m", extents.m),
                                    fmt::arg("n", extents.n), fmt::arg("k", extents.k))),
          schedule};
}

Tensors evaluate(const Tensors& in, const ProductExtents& extents) {
  const std::vector<float> product = product_of(in, extents);
  Tensors out(3);
  out[1].assign(extents.n, 0.0F);
  out[2].assign(extents.n, -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < product.size(); ++i) {
    const size_t column = i % extents.n;
    out[0].push_back(product[i] * in[2][i]);
    out[1][column] += out[0].back();
    out[2][column] = std::max(out[2][column], product[i]);
  }
  for (size_t column = 0; column < extents.n; ++column) out[2][column] += in[3][column];
  return out;
}

void expect_columns(const ProductExtents& extents, const Schedule& schedule) {
  SCOPED_TRACE(
      fmt::format("{} x {} x {}, {}", extents.batches, extents.m, extents.n, print(schedule)));
  const ScheduledKernel kernel = kernel_of(extents, schedule);
  ASSERT_EQ(kernel.planned().kernels.size(), 2U);
  EXPECT_TRUE(kernel.planned().kernels.back().finishes);
  const auto lowered = lower(kernel.facts(), schedule, builtin_families(), {.verify = true});
  ASSERT_TRUE(lowered) << lowered.error().text();
  EXPECT_EQ(kir::shared_bytes(kernel.lowered()),
            kernel.planned().kernels.front().chosen().estimate.shared_bytes);
  kernel.expect_outputs([&](const Tensors& in) { return evaluate(in, extents); }, 2);
}

TEST(TilePartialsTest, WarpsReduceTheirColumns) {
  for (const size_t columns : {2U, 7U, 64U, 100U, 257U}) {
    for (const ProductSchedule& schedule :
         {ProductSchedule{.rows = 64, .columns = 128, .row_warps = 2, .column_warps = 2},
          {.rows = 16, .columns = 32, .row_warps = 1, .column_warps = 2},
          {.rows = 32, .columns = 64, .row_warps = 2}}) {
      ProductSchedule own = schedule;
      if (columns % 2 != 0) own.width = 1;
      expect_columns({.m = 75, .n = columns}, own.schedule());
      expect_columns({.m = 33, .n = columns, .batches = 3}, own.schedule());
    }
  }
}

TEST(TilePartialsTest, WarpGroupsReduceTheirColumns) {
  for (const size_t columns : {2U, 100U, 256U, 300U}) {
    for (const ProductSchedule& schedule :
         {ProductSchedule{.rows = 128, .columns = 128, .row_warps = 8, .persistent_blocks = 2},
          {.rows = 64, .columns = 128, .row_warps = 4, .column_warps = 2, .persistent_blocks = 1},
          {.rows = 256, .columns = 64, .row_warps = 8, .stages = 3, .persistent_blocks = 3},
          {.rows = 64, .columns = 64, .row_warps = 4, .persistent_blocks = 2, .at_once = 2}}) {
      expect_columns({.m = 203, .n = columns}, schedule.schedule());
      expect_columns({.m = 70, .n = columns, .batches = 2}, schedule.schedule());
    }
  }
}

TEST(TilePartialsTest, WarpsOfAnEpilogueReduceColumns) {
  for (const size_t columns : {4U, 60U, 256U, 300U}) {
    for (const ProductSchedule& schedule : kEpilogueSchedules) {
      const auto own = static_cast<int64_t>(columns);
      if (!has_rows_for_all(schedule, std::min(own, schedule.columns) / 4)) continue;
      // Of wider tiles a lane does not have registers for a sum and a maximum of all its columns.
      const int64_t most = schedule.epilogue_warps > 3 ? 64 : 128;
      if (std::min(own, schedule.columns) > most) continue;
      expect_columns({.m = 203, .n = columns}, schedule.schedule());
    }
  }
}

TEST(TilePartialsTest, SlicesReduceTheirColumns) {
  for (const size_t columns : {8U, 33U, 64U}) {
    for (const int64_t warps : {2, 4}) {
      const Schedule schedule{
          .family = std::string(kMatmul),
          .parameters = MatmulParameters{.tile_rows = 8,
                                         .tile_columns = 16,
                                         .tile_depth = 64,
                                         .pipeline_stages = 2,
                                         .slice_warps = warps},
          .threads_per_row = 32 * warps,
          .vector_width = columns % 2 == 0 ? 2 : 1,
          .row_access = columns % 2 == 0 ? RowAccess::kAligned : RowAccess::kScalar};
      expect_columns({.m = 11, .n = columns, .k = 136}, schedule);
    }
  }
}

// Nothing but the product is reduced: which operand has the columns does not follow from inputs.
TEST(TilePartialsTest, ProductsAloneKeepTheirColumns) {
  for (const ProductSchedule& schedule :
       {ProductSchedule{.rows = 64, .columns = 128, .row_warps = 2, .column_warps = 2},
        {.rows = 128, .columns = 128, .row_warps = 8, .persistent_blocks = 2}}) {
    const ProductExtents extents{.m = 75, .n = 100, .batches = 3};
    const ScheduledKernel kernel(
        parsed_fusion(fmt::format(R"(fusion @alone {{
  %v0 x : bf16[{b}, {m}, {k}] = input
  %v1 w : bf16[{b}, {n}, {k}] = input
  %v2 y : f32[{b}, {m}, {n}] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 2, 3) over(3)
  %v3 s : f32[{n}] = reduce.sum %v2 over(0, 1)
  return %v2, %v3
}})",
                                  fmt::arg("b", extents.batches), fmt::arg("m", extents.m),
                                  fmt::arg("n", extents.n), fmt::arg("k", extents.k))),
        schedule.schedule());
    ASSERT_EQ(kernel.facts().space.columns, 100);
    kernel.expect_outputs(
        [&](const Tensors& in) {
          Tensors out = {product_of(in, extents), std::vector<float>(extents.n, 0.0F)};
          for (size_t i = 0; i < out[0].size(); ++i) out[1][i % extents.n] += out[0][i];
          return out;
        },
        2);
  }
}

// One row of partial results for each warp that has rows of a tile, whose last rows may be missing.
TEST(TilePartialsTest, EveryWarpLeavesPartialResults) {
  const ProductSchedule schedule{
      .rows = 128, .columns = 128, .row_warps = 8, .persistent_blocks = 2};
  const ScheduledKernel kernel = kernel_of({.m = 203, .n = 64, .batches = 3}, schedule.schedule());
  constexpr int64_t kTiles = 3 * 2;
  EXPECT_EQ(partial_rows(kernel.facts(), schedule.schedule()), kTiles * 8);
  ASSERT_EQ(kernel.planned().workspace.size(), 2U);
  EXPECT_EQ(kernel.planned().workspace[0].bytes, kTiles * 8 * 64 * 4);
  EXPECT_THAT(print(matmul_program(kernel.facts(), schedule.schedule())),
              HasSubstr("width 2 partials 8"));
}

}  // namespace sinter::tile_partials_test
