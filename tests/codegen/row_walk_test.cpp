#include "codegen/lower/row_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fusion_ir/fusion_builder.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::row_walk_test {

constexpr int64_t kRows = 11;

/// y = x * the sum of its row, of rows that begin anywhere between the boundaries of vectors.
void expect_summed_rows(int64_t columns, Schedule schedule) {
  using Tensors = ScheduledKernel::Tensors;
  FusionBuilder b("summed_rows");
  const ValueId x = b.input(DType::kF32, {kRows, columns}, "x");
  b.output(b.mul(x, b.broadcast_over(b.sum(x, {1}), x, {1})), "y");
  schedule.vector_width = 4;
  schedule.row_access = RowAccess::kUnaligned;
  ScheduledKernel(b.build(), schedule)
      .expect_outputs(
          [=](const Tensors& in) -> Tensors {
            std::vector<float> y = in[0];
            for (auto row = y.begin(); row != y.end(); row += columns) {
              const float sum = std::accumulate(row, row + columns, 0.0F);
              std::for_each(row, row + columns, [&](float& value) { value *= sum; });
            }
            return {y};
          },
          1);
}

TEST(RowWalk, RowsShorterThanAVectorAreWalkedOnce) {
  for (const int64_t columns : {2, 3, 5}) {
    expect_summed_rows(
        columns, {.family = "looped", .parameters = LoopedParameters{}, .threads_per_row = 32});
    expect_summed_rows(columns, {.family = "looped",
                                 .parameters = LoopedParameters{},
                                 .threads_per_row = 2,
                                 .rows_per_block = 16});
  }
}

/// The elements before the first whole vector and behind the last belong to one block.
TEST(RowWalk, BlocksOfAClusterWalkEveryElementOnce) {
  for (const int64_t columns : {257, 515, 1023}) {
    for (const int64_t cluster : {2, 4}) {
      expect_summed_rows(columns, {.family = "multi_wave",
                                   .parameters = MultiWaveParameters{.cluster_size = cluster},
                                   .threads_per_row = 64,
                                   .kept = {{ValueId{0}}}});
      expect_summed_rows(columns, {.family = "looped",
                                   .parameters = LoopedParameters{.cluster_size = cluster},
                                   .threads_per_row = 32});
    }
  }
}

}  // namespace sinter::row_walk_test
