// A driver may have staged the rows in shared memory: they are then read from there, from the start
// of the block's part, and all other inputs from global memory.

#include "codegen/lower/row_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::row_inputs_test {

using Tensors = ScheduledKernel::Tensors;

/// y = x * the sum of its row + w, and the sums of the columns of y.
constexpr std::string_view kGradient = R"(fusion @gradient {
  %v0 x : f32[11, 256] = input
  %v1 w : f32[256] = input
  %v2 : f32[11] = reduce.sum %v0 over(1)
  %v3 : f32[11, 256] = broadcast %v2 axes(0)
  %v4 : f32[11, 256] = mul %v0, %v3
  %v5 : f32[11, 256] = broadcast %v1 axes(1)
  %v6 y : f32[11, 256] = add %v4, %v5
  %v7 c : f32[256] = reduce.sum %v6 over(0)
  return %v6, %v7
})";

Tensors gradient(const Tensors& in) {
  std::vector<float> y = in[0];
  for (auto row = y.begin(); row != y.end(); row += 256) {
    const float sum = std::accumulate(row, row + 256, 0.0F);
    for (size_t i = 0; i < 256; ++i)
      row[static_cast<int64_t>(i)] = row[static_cast<int64_t>(i)] * sum + in[1][i];
  }
  return {y, column_sums(y, 256)};
}

ScheduledKernel pipeline(std::string_view fields) {
  return {kGradient, fmt::format("schedule warp_specialised {{ threads_per_row 64 "
                                 "rows_per_block 2 vector_width 4 persistent_blocks 2 {} }}",
                                 fields)};
}

TEST(RowInputsTest, RowsAreThoseOfTheirStage) {
  for (const char* kept : {"register", "reload"}) {
    for (const int64_t stages : {2, 4}) {
      pipeline(fmt::format("pipeline_stages {} keep %v0 in {}", stages, kept))
          .expect_outputs(gradient, 2);
    }
  }
}

TEST(RowInputsTest, RowsOfAnIterationAreBesideEachOther) {
  pipeline("pipeline_stages 4 rows_per_iteration 2 keep %v0 in reload").expect_outputs(gradient, 2);
}

TEST(RowInputsTest, ABlockOfAClusterHasItsPart) {
  pipeline("pipeline_stages 2 cluster_size 2 keep %v0 in reload").expect_outputs(gradient, 2);
}

/// The row comes by bulk copies alone; the weight comes by loads.
TEST(RowInputsTest, WhatIsStagedIsNotReadFromGlobalMemory) {
  const kir::Kernel kernel = pipeline("pipeline_stages 2 keep %v0 in reload").lowered();
  const auto loads = [&](std::string_view tensor) {
    return count_of<kir::Load>(kernel, kernel.body, [&](const kir::Load& load) {
      return kernel.buffers[load.buffer].name == tensor;
    });
  };
  EXPECT_EQ(loads("x"), 0);
  EXPECT_GT(loads("w"), 0);
  EXPECT_GT(count_of<kir::BulkCopy>(kernel, kernel.body), 0);
}

}  // namespace sinter::row_inputs_test
