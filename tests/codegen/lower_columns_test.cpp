#include "codegen/lower/column_fold.h"

#include <gtest/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::lower_columns_test {

constexpr int64_t kRows = 45;
constexpr int64_t kColumns = 68;

using Tensors = ScheduledKernel::Tensors;

/// The sums of the columns of x.
Fusion columns_of() {
  FusionBuilder b("columns_of");
  b.output(b.sum(b.input(DType::kF32, {kRows, kColumns}, "x"), {0}), "columns");
  return b.build();
}

void expect_column_sums(Schedule schedule, int64_t cluster_size = 1) {
  schedule.family = "column";
  schedule.parameters = ColumnParameters{.cluster_size = cluster_size};
  schedule.vector_width = 4;
  ScheduledKernel(columns_of(), schedule).expect_outputs([](const Tensors& in) -> Tensors {
    return {column_sums(in[0], kColumns)};
  });
}

/// Rows that are no multiple of what slots, batches and blocks take together.
TEST(LowerColumns, EveryRowIsAddedOnce) {
  expect_column_sums({.threads_per_row = 8, .rows_per_block = 4});
  expect_column_sums({.threads_per_row = 8, .rows_per_block = 4, .unroll = 4});
  expect_column_sums(
      {.threads_per_row = 8, .rows_per_block = 4, .unroll = 2, .persistent_blocks = 3});
}

TEST(LowerColumns, EveryBlockOfAClusterAddsItsShare) {
  for (const int64_t cluster : {2, 4}) {
    expect_column_sums({.threads_per_row = 8, .rows_per_block = 4}, cluster);
    expect_column_sums(
        {.threads_per_row = 8, .rows_per_block = 4, .unroll = 2, .persistent_blocks = 2 * cluster},
        cluster);
  }
}

TEST(LowerColumns, SlotsMeetBeforeOneReadsWhatAnotherLeft) {
  expect_column_sums({.threads_per_row = 8, .rows_per_block = 16});
  expect_column_sums({.threads_per_row = 8, .rows_per_block = 16, .persistent_blocks = 2});
}

}  // namespace sinter::lower_columns_test
