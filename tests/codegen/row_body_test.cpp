// What threads do with one row: its stages one after the other, each with what the one before has
// reduced, whatever is kept in between.

#include "codegen/lower/row_body.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::row_body_test {

using Tensors = ScheduledKernel::Tensors;

/// d = x - the maximum of its row, and y = d + the sum of d: two reductions, the second of which
/// needs the first. Both are outputs too.
std::string three_stages(int64_t columns) {
  return fmt::format(R"(fusion @stages {{
  %v0 x : f32[7, {0}] = input
  %v1 m : f32[7] = reduce.max %v0 over(1)
  %v2 : f32[7, {0}] = broadcast %v1 axes(0)
  %v3 d : f32[7, {0}] = sub %v0, %v2
  %v4 s : f32[7] = reduce.sum %v3 over(1)
  %v5 : f32[7, {0}] = broadcast %v4 axes(0)
  %v6 y : f32[7, {0}] = add %v3, %v5
  return %v6, %v1, %v4
}})",
                     columns);
}

void expect_stages(int64_t columns, std::string_view sched) {
  ScheduledKernel(three_stages(columns), sched)
      .expect_outputs(
          [=](const Tensors& in) -> Tensors {
            std::vector<float> y = in[0];
            std::vector<float> most;
            std::vector<float> sums;
            for (auto row = y.begin(); row != y.end(); row += columns) {
              most.push_back(*std::max_element(row, row + columns));
              std::for_each(row, row + columns, [&](float& value) { value -= most.back(); });
              sums.push_back(std::accumulate(row, row + columns, 0.0F));
              std::for_each(row, row + columns, [&](float& value) { value += sums.back(); });
            }
            return {y, most, sums};
          },
          2);
}

TEST(RowBodyTest, StagesFollowEachOtherWhateverIsKept) {
  for (const char* kept : {"keep %v0 in register", "keep %v0 in shared", "keep %v0 in reload"}) {
    for (const int64_t columns : {8, 100, 256, 260}) {
      expect_stages(columns, fmt::format("schedule multi_wave {{ threads_per_row 64 "
                                         "vector_width 4 {} }}",
                                         kept));
    }
  }
}

TEST(RowBodyTest, RowsThatAreReadAgainAreInChunks) {
  for (const int64_t unroll : {1, 2, 4}) {
    expect_stages(700, fmt::format("schedule looped {{ threads_per_row 32 vector_width 4 "
                                   "unroll {} }}",
                                   unroll));
  }
}

/// The difference is kept from the stage that computes it.
TEST(RowBodyTest, ComputedValuesAreKeptToo) {
  for (const char* place : {"register", "shared"}) {
    expect_stages(256, fmt::format("schedule multi_wave {{ threads_per_row 64 vector_width 4 "
                                   "keep %v0 in reload keep %v3 in {} }}",
                                   place));
  }
}

/// Several rows of a warp, rows of several warps, and blocks that walk: an exchange of one stage or
/// row does not meet that of another.
TEST(RowBodyTest, ExchangesOfStagesAndRowsDoNotMeet) {
  for (const char* fields :
       {"threads_per_row 8 rows_per_block 4", "threads_per_row 128 rows_per_block 2",
        "threads_per_row 128 persistent_blocks 2",
        "threads_per_row 64 rows_per_block 2 persistent_blocks 2",
        "threads_per_row 32 cluster_size 2"}) {
    expect_stages(512, fmt::format("schedule multi_wave {{ vector_width 4 {} "
                                   "keep %v0 in register }}",
                                   fields));
  }
}

}  // namespace sinter::row_body_test
