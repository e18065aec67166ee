// Values of a row that come from memory are loaded one row ahead, and are those of the row at hand.

#include "codegen/lower/prefetched_row_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::prefetched_row_values_test {

using Tensors = ScheduledKernel::Tensors;

/// y = x * s - the sum of x * s over the row, with a scale s of each row; and the column sums of y.
std::string scaled_rows(int64_t rows) {
  return fmt::format(R"(fusion @scaled {{
  %v0 x : f32[{0}, 128] = input
  %v1 s : f32[{0}] = input
  %v2 : f32[{0}, 128] = broadcast %v1 axes(0)
  %v3 : f32[{0}, 128] = mul %v0, %v2
  %v4 : f32[{0}] = reduce.sum %v3 over(1)
  %v5 : f32[{0}, 128] = broadcast %v4 axes(0)
  %v6 y : f32[{0}, 128] = sub %v3, %v5
  %v7 c : f32[128] = reduce.sum %v6 over(0)
  return %v6, %v7
}})",
                     rows);
}

void expect_scaled_rows(int64_t rows, std::string_view sched) {
  ScheduledKernel(scaled_rows(rows), sched)
      .expect_outputs(
          [=](const Tensors& in) -> Tensors {
            std::vector<float> y = in[0];
            for (int64_t row = 0; row < rows; ++row) {
              const auto begin = y.begin() + row * 128;
              std::for_each(begin, begin + 128,
                            [&](float& value) { value *= in[1][static_cast<size_t>(row)]; });
              const float sum = std::accumulate(begin, begin + 128, 0.0F);
              std::for_each(begin, begin + 128, [&](float& value) { value -= sum; });
            }
            return {y, column_sums(y, 128)};
          },
          2);
}

/// Fewer rows than blocks, as many, and a last round that is short.
TEST(PrefetchedRowValuesTest, BlocksThatWalkRowsHaveTheScaleOfEach) {
  for (const int64_t rows : {2, 4, 11}) {
    expect_scaled_rows(rows,
                       "schedule multi_wave { threads_per_row 32 vector_width 4 "
                       "persistent_blocks 2 prefetch_rows 1 keep %v0 in register }");
    expect_scaled_rows(rows,
                       "schedule multi_wave { threads_per_row 32 rows_per_block 2 vector_width 4 "
                       "persistent_blocks 2 prefetch_rows 1 keep %v0 in register }");
  }
}

TEST(PrefetchedRowValuesTest, GroupsOfAPipelineHaveTheScaleOfTheirs) {
  for (const int64_t rows : {2, 11}) {
    expect_scaled_rows(rows,
                       "schedule warp_specialised { threads_per_row 32 rows_per_block 4 "
                       "vector_width 4 persistent_blocks 2 pipeline_stages 4 "
                       "keep %v0 in register }");
  }
}

/// Nothing is loaded ahead where no value of a row is read.
TEST(PrefetchedRowValuesTest, OnlyValuesThatAreReadHaveARegister) {
  const auto ahead = [](std::string_view prefetch) {
    const kir::Kernel kernel =
        ScheduledKernel(scaled_rows(11),
                        fmt::format("schedule multi_wave {{ threads_per_row 32 vector_width 4 "
                                    "persistent_blocks 2 {} keep %v0 in register }}",
                                    prefetch))
            .lowered();
    return std::ranges::count_if(kernel.vars, [](const kir::Var& var) {
      return var.is_scalar() && var.name.ends_with("_next");
    });
  };
  EXPECT_EQ(ahead("prefetch_rows 1"), 1);
  EXPECT_EQ(ahead(""), 0);
}

}  // namespace sinter::prefetched_row_values_test
