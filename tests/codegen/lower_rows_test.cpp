// Kernels that give each row to a group of threads compute every row once: with several rows to a
// block, with blocks that walk over rows, and with rows in advance.

#include "codegen/lower/lower_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::lower_rows_test {

using Tensors = ScheduledKernel::Tensors;

/// y = x * the sum of its row, and the sums.
void expect_scaled_rows(int64_t rows, int64_t columns, std::string_view sched) {
  ScheduledKernel(fmt::format(R"(fusion @scaled {{
  %v0 x : f32[{0}, {1}] = input
  %v1 s : f32[{0}] = reduce.sum %v0 over(1)
  %v2 : f32[{0}, {1}] = broadcast %v1 axes(0)
  %v3 y : f32[{0}, {1}] = mul %v0, %v2
  return %v3, %v1
}})",
                              rows, columns),
                  sched)
      .expect_outputs(
          [=](const Tensors& in) -> Tensors {
            std::vector<float> y = in[0];
            std::vector<float> sums;
            for (int64_t row = 0; row < rows; ++row) {
              const auto begin = y.begin() + row * columns;
              sums.push_back(std::accumulate(begin, begin + columns, 0.0F));
              std::for_each(begin, begin + columns, [&](float& value) { value *= sums.back(); });
            }
            return {y, sums};
          },
          1);
}

TEST(LowerRowsTest, TheLastBlockMayLackRows) {
  for (const int64_t rows : {1, 3, 4, 5, 8}) {
    expect_scaled_rows(rows, 64,
                       "schedule looped { threads_per_row 16 rows_per_block 4 vector_width 4 }");
    expect_scaled_rows(rows, 64,
                       "schedule multi_wave { threads_per_row 16 rows_per_block 4 vector_width 4 "
                       "keep %v0 in register }");
  }
}

TEST(LowerRowsTest, RowsOfAWarpOfSeveralAndOfLessElementsThanThreads) {
  for (const int64_t columns : {2, 31, 32, 33, 200}) {
    expect_scaled_rows(3, columns,
                       "schedule looped { threads_per_row 32 row_access scalar unroll 2 }");
    expect_scaled_rows(3, columns,
                       "schedule multi_wave { threads_per_row 64 row_access scalar "
                       "keep %v0 in shared }");
  }
}

/// The sum of no elements is 0.
TEST(LowerRowsTest, RowsWithoutElementsHaveTheIdentity) {
  expect_scaled_rows(5, 0, "schedule looped { threads_per_row 32 }");
}

TEST(LowerRowsTest, BlocksThatStayTakeEveryRowOnce) {
  for (const int64_t rows : {2, 7, 12, 13}) {
    for (const char* more : {"", "prefetch_rows 1"}) {
      expect_scaled_rows(rows, 64,
                         fmt::format("schedule multi_wave {{ threads_per_row 16 rows_per_block 2 "
                                     "vector_width 4 persistent_blocks 3 {} "
                                     "keep %v0 in register }}",
                                     more));
    }
  }
}

TEST(LowerRowsTest, TheGridIsOfRowsOrOfBlocks) {
  const auto lowered = [](std::string_view fields) {
    const ScheduledKernel kernel(R"(fusion @sums {
  %v0 x : f32[13, 64] = input
  %v1 s : f32[13] = reduce.sum %v0 over(1)
  return %v1
})",
                                 fmt::format("schedule looped {{ threads_per_row 16 "
                                             "rows_per_block 4 vector_width 4 {} }}",
                                             fields));
    return lower_rows(kernel.facts(), kernel.planned().kernels.front().chosen().schedule);
  };
  const LoweredKernel rows = lowered("");
  EXPECT_EQ(rows.kernel.grid.per_block, 4);
  EXPECT_EQ(rows.param_values[rows.kernel.grid.work.index], 13);
  const LoweredKernel blocks = lowered("persistent_blocks 3");
  EXPECT_EQ(blocks.kernel.grid.per_block, 1);
  EXPECT_EQ(blocks.param_values[blocks.kernel.grid.work.index], 3);
}

}  // namespace sinter::lower_rows_test
