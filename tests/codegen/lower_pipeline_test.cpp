#include "codegen/lower/lower_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/schedule/pipeline.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::lower_pipeline_test {

constexpr int64_t kRows = 37;
constexpr int64_t kColumns = 512;

/// y = x - the row's maximum, and the sums of the columns of y. `x` is the first value.
Fusion lowered_rows() {
  FusionBuilder b("lowered_rows");
  const ValueId x = b.input(DType::kF32, {kRows, kColumns}, "x");
  const ValueId y = b.sub(x, b.broadcast_over(b.amax(x, {1}), x, {1}));
  b.output(y, "y");
  b.output(b.sum(y, {0}), "columns");
  return b.build();
}

using Tensors = ScheduledKernel::Tensors;

Tensors below_maximum(const Tensors& in) {
  std::vector<float> y = in[0];
  for (auto row = y.begin(); row != y.end(); row += kColumns) {
    const float largest = *std::max_element(row, row + kColumns);
    std::for_each(row, row + kColumns, [&](float& value) { value -= largest; });
  }
  return {y, column_sums(y, kColumns)};
}

/// Runs a schedule that keeps rows in registers, or reads them in the pipeline a second time.
void expect_lowered_rows(const WarpSpecialisedParameters& parameters, Schedule schedule) {
  schedule.family = std::string(kWarpSpecialised);
  schedule.parameters = parameters;
  schedule.vector_width = 4;
  const ValueId x{0};
  for (const Residency residency : {Residency::kRegister, Residency::kReload}) {
    schedule.kept = {{x, residency}};
    const ScheduledKernel kernel(lowered_rows(), schedule);
    EXPECT_EQ(releases_early(kernel.facts(), schedule), residency == Residency::kRegister);
    kernel.expect_outputs(below_maximum);
  }
}

/// Blocks whose rows go round the pipeline several times.
TEST(LowerPipeline, RowsStayInTheirSlotUntilTheyAreRead) {
  expect_lowered_rows({.pipeline_stages = 2}, {.threads_per_row = 128, .persistent_blocks = 3});
  expect_lowered_rows({.pipeline_stages = 4},
                      {.threads_per_row = 64, .rows_per_block = 2, .persistent_blocks = 2});
}

/// Items of two rows, and a short one at the end.
TEST(LowerPipeline, RowsOfAnItemStayInTheirSlotUntilTheyAreRead) {
  expect_lowered_rows({.pipeline_stages = 4, .rows_per_iteration = 2},
                      {.threads_per_row = 128, .persistent_blocks = 2});
  expect_lowered_rows({.pipeline_stages = 8, .rows_per_iteration = 2},
                      {.threads_per_row = 64, .rows_per_block = 2, .persistent_blocks = 2});
}

TEST(LowerPipeline, ExchangesOfFollowingRowsDoNotMeetInACluster) {
  expect_lowered_rows({.cluster_size = 2, .pipeline_stages = 2},
                      {.threads_per_row = 128, .persistent_blocks = 4});
  expect_lowered_rows({.cluster_size = 2, .pipeline_stages = 4},
                      {.threads_per_row = 64, .rows_per_block = 2, .persistent_blocks = 4});
}

}  // namespace sinter::lower_pipeline_test
