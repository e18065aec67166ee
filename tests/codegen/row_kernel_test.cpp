// Blocks of a cluster that share rows, and exchange what they have reduced of each.

#include "codegen/lower/row_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fusion_ir/fusion_builder.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::row_kernel_test {

constexpr int64_t kRows = 29;
constexpr int64_t kColumns = 512;

/// y = x * (the row's sum - the row's maximum), and the sums of the columns of y.
Fusion weighted_rows() {
  FusionBuilder b("weighted_rows");
  const ValueId x = b.input(DType::kF32, {kRows, kColumns}, "x");
  const ValueId weight = b.sub(b.sum(x, {1}), b.amax(x, {1}));
  const ValueId y = b.mul(x, b.broadcast_over(weight, x, {1}));
  b.output(y, "y");
  b.output(b.sum(y, {0}), "columns");
  return b.build();
}

using Tensors = ScheduledKernel::Tensors;

Tensors weighted(const Tensors& in) {
  std::vector<float> y = in[0];
  for (auto row = y.begin(); row != y.end(); row += kColumns) {
    const float sum = std::accumulate(row, row + kColumns, 0.0F);
    const float weight = sum - *std::max_element(row, row + kColumns);
    std::for_each(row, row + kColumns, [&](float& value) { value *= weight; });
  }
  return {y, column_sums(y, kColumns)};
}

// An exchange without an order shows in some orders of warps only.
constexpr uint64_t kSeeds = 8;

void expect_weighted_rows(const Schedule& schedule) {
  ScheduledKernel(weighted_rows(), schedule).expect_outputs(weighted, kSeeds);
}

/// What one row leaves in the places of an exchange is read before a later row's lies there.
TEST(RowKernel, ExchangesOfFollowingRowsDoNotMeetInACluster) {
  Schedule schedule{.family = "multi_wave",
                    .parameters = MultiWaveParameters{.cluster_size = 2},
                    .threads_per_row = 64,
                    .vector_width = 4,
                    .persistent_blocks = 4};
  expect_weighted_rows(schedule);
  schedule.threads_per_row = 32;
  schedule.persistent_blocks = 8;
  std::get<MultiWaveParameters>(schedule.parameters).cluster_size = 4;
  expect_weighted_rows(schedule);
}

TEST(RowKernel, ExchangesOfTheRowsOfAnIterationDoNotMeetInACluster) {
  expect_weighted_rows({.family = "looped",
                        .parameters = LoopedParameters{.cluster_size = 2, .rows_per_tile = 3},
                        .threads_per_row = 64,
                        .vector_width = 4,
                        .persistent_blocks = 4});
}

}  // namespace sinter::row_kernel_test
