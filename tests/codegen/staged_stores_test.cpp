// Outputs of a product that are collected in shared memory and stored in wide accesses, of whole
// numbers against loops.

#include "codegen/lower/staged_stores.h"

#include <gmock/gmock.h>

#include <cmath>
#include <optional>

#include "scheduler/families/matmul.h"
#include "tests/codegen/product_kernel.h"

namespace sinter::staged_stores_test {

using Tensors = ScheduledKernel::Tensors;

/// Adjacent columns of each output that one access stores; 1 where it is not staged.
std::vector<int64_t> widths_of(const ScheduledKernel& kernel) {
  const program::Program program =
      matmul_program(kernel.facts(), kernel.planned().kernels.front().chosen().schedule);
  std::vector<int64_t> out(kernel.facts().fusion.outputs.size(), 1);
  for (const program::Step& step : program.steps) {
    const auto* region = std::get_if<program::Region>(&step);
    if (region == nullptr) continue;
    for (const program::Staging& staging : region->staged) out[staging.output] = staging.width;
  }
  return out;
}

/// Runs the kernel and expects what `evaluate` makes of each product and of the third input.
void expect_elements(const ScheduledKernel& kernel, const ProductExtents& extents,
                     const std::function<std::vector<float>(float product, float other)>& evaluate,
                     uint64_t seeds = 1) {
  ASSERT_EQ(kernel.planned().kernels.size(), 1U);
  EXPECT_EQ(kir::shared_bytes(kernel.lowered()),
            kernel.planned().kernels.front().chosen().estimate.shared_bytes);
  kernel.expect_outputs(
      [&](const Tensors& in) {
        const std::vector<float> product = product_of(in, extents);
        Tensors out;
        for (size_t i = 0; i < product.size(); ++i) {
          const std::vector<float> values = evaluate(product[i], in.size() > 2 ? in[2][i] : 0.0F);
          out.resize(values.size());
          for (size_t j = 0; j < values.size(); ++j) out[j].push_back(values[j]);
        }
        return out;
      },
      seeds);
}

/// By warps with tiles of one and several accesses in a row, and by warp groups.
std::vector<ProductSchedule> schedules() {
  return {{.rows = 32, .columns = 64, .row_warps = 2},
          {.rows = 64, .columns = 128, .row_warps = 2, .column_warps = 2},
          {.rows = 16, .columns = 256, .row_warps = 1},
          {.rows = 128, .columns = 256, .row_warps = 8, .persistent_blocks = 2},
          {.rows = 128, .columns = 192, .row_warps = 8, .persistent_blocks = 1},
          {.rows = 64, .columns = 64, .row_warps = 4, .column_warps = 2, .persistent_blocks = 3},
          {.rows = 64, .columns = 64, .row_warps = 4, .persistent_blocks = 2, .at_once = 2}};
}

/// The product as numbers of three sizes; those of one byte after a clamp.
std::string of_three_types(const ProductExtents& extents) {
  return fmt::format(R"(fusion @types {{
  %v0 x : bf16[{m}, {k}] = input
  %v1 w : bf16[{n}, {k}] = input
  %v2 y : f32[{m}, {n}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v3 : bf16[{m}, {n}] = cast %v2
  %v4 : f32 = constant 0x1.9p+6
  %v5 : f32[{m}, {n}] = broadcast %v4 axes()
  %v6 : f32[{m}, {n}] = min %v2, %v5
  %v7 : f32[{m}, {n}] = neg %v5
  %v8 : f32[{m}, {n}] = max %v6, %v7
  %v9 : i8[{m}, {n}] = cast %v8
  return %v3, %v2, %v9
}})",
                     fmt::arg("m", extents.m), fmt::arg("n", extents.n), fmt::arg("k", extents.k));
}

std::vector<float> in_three_types(float product) {
  return {product, product, std::clamp(product, -100.0F, 100.0F)};
}

// Rows that are aligned to 16 bytes, to fewer, and to none; last tiles of columns that are partial.
TEST(StagedStoresTest, OutputsOfAllWidthsAreStored) {
  const std::vector<std::pair<size_t, std::vector<int64_t>>> columns_and_widths = {
      {144, {8, 4, 16}}, {136, {8, 4, 8}}, {132, {4, 4, 4}}, {130, {1, 1, 1}},
      {100, {4, 4, 4}},  {64, {8, 4, 16}}, {272, {8, 4, 16}}};
  for (const auto& [columns, widths] : columns_and_widths) {
    for (const ProductSchedule& schedule : schedules()) {
      const ProductExtents extents{.m = 75, .n = columns, .k = 16};
      SCOPED_TRACE(fmt::format("{} columns, {}", columns, print(schedule.schedule())));
      const ScheduledKernel kernel(parsed_fusion(of_three_types(extents)), schedule.schedule());
      EXPECT_EQ(widths_of(kernel), widths);
      expect_elements(kernel, extents,
                      [](float product, float) { return in_three_types(product); });
    }
  }
}

// Lanes that have one column at a time collect those of even rows.
TEST(StagedStoresTest, SingleColumnsAreCollected) {
  ProductSchedule schedule{.rows = 32, .columns = 64, .row_warps = 2, .width = 1};
  for (const size_t columns : {130U, 131U}) {
    const ProductExtents extents{.m = 40, .n = columns, .k = 16};
    const ScheduledKernel kernel(parsed_fusion(of_three_types(extents)), schedule.schedule());
    const int64_t width = columns % 2 == 0 ? 2 : 1;
    EXPECT_EQ(widths_of(kernel), std::vector<int64_t>(3, width));
    expect_elements(kernel, extents, [](float product, float) { return in_three_types(product); });
  }
}

// The warps read the residual before they overwrite it, each its own part.
TEST(StagedStoresTest, AnOutputMayLieInAnInput) {
  for (const size_t columns : {136U, 260U}) {
    const ProductExtents extents{.m = 75, .n = columns, .k = 16};
    const std::string fir =
        fmt::format(R"(fusion @in_place {{
  %v0 x : bf16[{m}, {k}] = input
  %v1 w : bf16[{n}, {k}] = input
  %v2 r : f32[{m}, {n}] = input
  %v3 : f32[{m}, {n}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 y : f32[{m}, {n}] = add %v3, %v2
  %v5 z : bf16[{m}, {n}] = cast %v3
  return %v4 alias(%v2), %v5
}})",
                    fmt::arg("m", extents.m), fmt::arg("n", extents.n), fmt::arg("k", extents.k));
    for (const ProductSchedule& schedule : schedules()) {
      SCOPED_TRACE(fmt::format("{} columns, {}", columns, print(schedule.schedule())));
      const ScheduledKernel kernel(parsed_fusion(fir), schedule.schedule());
      EXPECT_EQ(widths_of(kernel).front(), 4);
      expect_elements(
          kernel, extents,
          [](float product, float residual) {
            return std::vector<float>{product + residual, product};
          },
          2);
    }
  }
}

// Rows of a batch that a tile reaches past are those of the next one.
TEST(StagedStoresTest, BatchesEndWithinATile) {
  const ProductExtents extents{.m = 75, .n = 136, .k = 16, .batches = 3};
  const std::string fir =
      fmt::format(R"(fusion @batches {{
  %v0 x : bf16[3, {m}, {k}] = input
  %v1 w : bf16[3, {n}, {k}] = input
  %v2 y : f32[3, {m}, {n}] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 2, 3) over(3)
  %v3 : bf16[3, {m}, {n}] = cast %v2
  return %v2, %v3
}})",
                  fmt::arg("m", extents.m), fmt::arg("n", extents.n), fmt::arg("k", extents.k));
  for (const ProductSchedule& schedule : schedules()) {
    SCOPED_TRACE(print(schedule.schedule()));
    const ScheduledKernel kernel(parsed_fusion(fir), schedule.schedule());
    EXPECT_EQ(widths_of(kernel), (std::vector<int64_t>{4, 8}));
    expect_elements(kernel, extents, [](float product, float) {
      return std::vector<float>{product, product};
    });
  }
}

// A row of a warp's part of the output is 16 bytes, for which shared memory has no layout.
TEST(StagedStoresTest, RowsOfOneChunkAreNotCollected) {
  const ProductExtents extents{.m = 40, .n = 32, .k = 16};
  const ProductSchedule schedule{.rows = 32, .columns = 32, .row_warps = 2, .column_warps = 2};
  const ScheduledKernel kernel(parsed_fusion(of_three_types(extents)), schedule.schedule());
  expect_elements(kernel, extents, [](float product, float) { return in_three_types(product); });
}

}  // namespace sinter::staged_stores_test
