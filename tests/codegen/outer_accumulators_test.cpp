// Column sums and totals of blocks that walk over rows: accumulated in registers or in shared
// memory, then combined over the row slots of a block, the blocks of a cluster, and all blocks.

#include "codegen/lower/outer_accumulators.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::outer_accumulators_test {

using Tensors = ScheduledKernel::Tensors;

constexpr int64_t kRows = 13;
constexpr int64_t kColumns = 64;

/// For y = x + the sum of its row: y, the sum and the maximum of each column, and the total of x.
constexpr std::string_view kGradient = R"(fusion @gradient {
  %v0 x : f32[13, 64] = input
  %v1 : f32[13] = reduce.sum %v0 over(1)
  %v2 : f32[13, 64] = broadcast %v1 axes(0)
  %v3 y : f32[13, 64] = add %v0, %v2
  %v4 c : f32[64] = reduce.sum %v3 over(0)
  %v5 m : f32[64] = reduce.max %v3 over(0)
  %v6 t : f32 = reduce.sum %v0 over(0, 1)
  return %v3, %v4, %v5, %v6
})";

Tensors gradient(const Tensors& in) {
  std::vector<float> y = in[0];
  for (auto row = y.begin(); row != y.end(); row += kColumns) {
    const float sum = std::accumulate(row, row + kColumns, 0.0F);
    std::for_each(row, row + kColumns, [&](float& value) { value += sum; });
  }
  std::vector<float> most(y.begin(), y.begin() + kColumns);
  for (size_t i = 0; i < y.size(); ++i) most[i % kColumns] = std::max(most[i % kColumns], y[i]);
  return {y, column_sums(y, kColumns), most, {std::accumulate(in[0].begin(), in[0].end(), 0.0F)}};
}

void expect_gradient(std::string_view fields) {
  ScheduledKernel(kGradient, fmt::format("schedule multi_wave {{ vector_width 4 {} "
                                         "keep %v0 in register }}",
                                         fields))
      .expect_outputs(gradient, 2);
}

TEST(OuterAccumulatorsTest, OneSlotOfOneBlockAddsAllRows) {
  expect_gradient("threads_per_row 32 persistent_blocks 1");
}

/// More slots than rows, in some blocks: what they have is the identity.
TEST(OuterAccumulatorsTest, SlotsWithoutARowChangeNothing) {
  for (const int64_t slots : {2, 4, 8})
    expect_gradient(fmt::format("threads_per_row 16 rows_per_block {} persistent_blocks 3", slots));
  expect_gradient("threads_per_row 16 rows_per_block 2 persistent_blocks 13");
}

TEST(OuterAccumulatorsTest, SharedMemoryHoldsTheColumnsAsRegistersDo) {
  for (const int64_t slots : {2, 4}) {
    expect_gradient(
        fmt::format("threads_per_row 16 rows_per_block {} persistent_blocks 3 "
                    "accumulators shared",
                    slots));
  }
}

TEST(OuterAccumulatorsTest, TheFirstBlockOfAClusterCombinesAll) {
  expect_gradient("threads_per_row 32 cluster_size 2 persistent_blocks 4");
}

TEST(OuterAccumulatorsTest, TheLastBlockFinishesThemToo) {
  expect_gradient("threads_per_row 16 rows_per_block 2 persistent_blocks 5 finish last_block");
}

/// A column's extreme index and its moments are tuples. 12 rows of 0, 1, ... have exact means.
TEST(OuterAccumulatorsTest, ColumnsReduceTuplesWhole) {
  for (const char* fields :
       {"rows_per_block 4", "rows_per_block 4 unroll 2", "rows_per_block 4 cluster_size 2"}) {
    ScheduledKernel(
        R"(fusion @indices {
  %v0 x : f32[13, 64] = input
  %v1 i : i64[64] = reduce.argmax %v0 over(0)
  return %v1
})",
        fmt::format("schedule column {{ threads_per_row 8 vector_width 4 {} }}", fields))
        .expect_outputs(
            [](const Tensors& in) -> Tensors {
              std::vector<float> place(kColumns);
              for (size_t column = 0; column < kColumns; ++column) {
                for (size_t row = 1; row < kRows; ++row) {
                  const auto best = static_cast<size_t>(place[column]);
                  if (in[0][row * kColumns + column] > in[0][best * kColumns + column])
                    place[column] = static_cast<float>(row);
                }
              }
              return {place};
            },
            2);
  }
}

/// Values that are read per column after all rows, for the results alone.
TEST(OuterAccumulatorsTest, FinishLoadsAreWhatOnlyTheResultsNeed) {
  const ScheduledKernel kernel(R"(fusion @scaled_sums {
  %v0 x : f32[13, 64] = input
  %v1 w : f32[64] = input
  %v2 : f32[64] = reduce.sum %v0 over(0)
  %v3 y : f32[64] = mul %v2, %v1
  return %v3
})",
                               "schedule column { threads_per_row 8 rows_per_block 4 "
                               "vector_width 4 }");
  EXPECT_THAT(finish_loads(kernel.facts()),
              testing::ElementsAre(named_value(kernel.facts().fusion, "w")));
}

}  // namespace sinter::outer_accumulators_test
