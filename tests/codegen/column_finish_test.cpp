// What follows reductions over the rows is computed once all rows are done: per column, or once
// where a total alone decides it.

#include "codegen/lower/column_finish.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::column_finish_test {

using Tensors = ScheduledKernel::Tensors;

/// y = 2 * the column's sum + w.
constexpr std::string_view kColumns = R"(fusion @columns {
  %v0 x : f32[9, 68] = input
  %v1 w : f32[68] = input
  %v2 : f32[68] = reduce.sum %v0 over(0)
  %v3 : f32[68] = add %v2, %v2
  %v4 y : f32[68] = add %v3, %v1
  return %v4, %v2
})";

Tensors columns(const Tensors& in) {
  const std::vector<float> sums = column_sums(in[0], 68);
  std::vector<float> y = in[1];
  for (size_t i = 0; i < y.size(); ++i) y[i] += 2.0F * sums[i];
  return {y, sums};
}

/// 68 columns are two strips of 32 and one of 4.
TEST(ColumnFinishTest, StripsFinishTheirColumns) {
  for (const char* fields : {"", "unroll 2", "cluster_size 2"}) {
    ScheduledKernel(kColumns, fmt::format("schedule column {{ threads_per_row 8 rows_per_block 4 "
                                          "vector_width 4 {} }}",
                                          fields))
        .expect_outputs(columns, 2);
  }
}

TEST(ColumnFinishTest, PartialResultsAreFinishedByAKernelOrTheLastBlock) {
  for (const char* finish : {"kernel", "last_block"}) {
    ScheduledKernel(kColumns, fmt::format("schedule column {{ threads_per_row 8 rows_per_block 4 "
                                          "vector_width 4 persistent_blocks 3 finish {} }}",
                                          finish))
        .expect_outputs(columns, 2);
  }
}

/// t = 1 + the total, and y = the column's sum * t: columns may wait for a total.
TEST(ColumnFinishTest, TotalsAreStoredOnceAndReadByColumns) {
  for (const char* finish : {"kernel", "last_block"}) {
    ScheduledKernel(R"(fusion @totals {
  %v0 x : f32[9, 64] = input
  %v1 : f32[9] = reduce.max %v0 over(1)
  %v2 : f32[9, 64] = broadcast %v1 axes(0)
  %v3 z : f32[9, 64] = sub %v0, %v2
  %v4 c : f32[64] = reduce.sum %v3 over(0)
  %v5 s : f32 = reduce.sum %v1 over(0)
  %v6 : f32 = constant 1
  %v7 t : f32 = add %v5, %v6
  return %v3, %v4, %v7
})",
                    fmt::format("schedule multi_wave {{ threads_per_row 16 rows_per_block 2 "
                                "vector_width 4 persistent_blocks 2 finish {} "
                                "keep %v0 in register }}",
                                finish))
        .expect_outputs(
            [](const Tensors& in) -> Tensors {
              std::vector<float> z = in[0];
              float total = 1.0F;
              for (auto row = z.begin(); row != z.end(); row += 64) {
                const float most = *std::max_element(row, row + 64);
                total += most;
                std::for_each(row, row + 64, [&](float& value) { value -= most; });
              }
              return {z, column_sums(z, 64), {total}};
            },
            2);
  }
}

TEST(ColumnFinishTest, SumsOfNoRowsAreTheIdentity) {
  ScheduledKernel(R"(fusion @none {
  %v0 x : f32[0, 64] = input
  %v1 c : f32[64] = reduce.sum %v0 over(0)
  return %v1
})",
                  "schedule column { threads_per_row 8 rows_per_block 4 vector_width 4 }")
      .expect_outputs([](const Tensors&) -> Tensors { return {std::vector<float>(64, 0.0F)}; }, 1);
}

}  // namespace sinter::column_finish_test
