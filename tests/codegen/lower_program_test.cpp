// Matmul kernels of whole numbers against loops, and how many statements a pipeline takes.

#include "codegen/lower/lower_program.h"

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::lower_program_test {

constexpr std::string_view kLinear = R"(fusion @linear {
  %v0 x : bf16[37, 52] = input
  %v1 w : bf16[41, 52] = input
  %v2 bias : f32[41] = input
  %v3 : f32[37, 41] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v4 : f32[37, 41] = broadcast %v2 axes(1)
  %v5 y : f32[37, 41] = add %v3, %v4
  return %v5
})";

std::string schedule(int64_t rows, int64_t columns, int64_t depth, int64_t row_warps,
                     int64_t column_warps, int64_t stages) {
  return fmt::format(
      "schedule matmul {{ threads_per_row {} rows_per_block 1 vector_width 1 unroll 1 "
      "min_blocks_per_sm 1 tile_rows {} tile_columns {} tile_depth {} row_warps {} "
      "pipeline_stages {} row_access scalar read_priority normal }}",
      32 * row_warps * column_warps, rows, columns, depth, row_warps, stages);
}

ScheduledKernel::Tensors linear(const ScheduledKernel::Tensors& in) {
  std::vector<float> out;
  for (size_t m = 0; m < 37; ++m) {
    for (size_t n = 0; n < 41; ++n) {
      float sum = in[2][n];
      for (size_t k = 0; k < 52; ++k) sum += in[0][m * 52 + k] * in[1][n * 52 + k];
      out.push_back(sum);
    }
  }
  return {out};
}

TEST(LowerProgramTest, TilesOfAnyShapeComputeTheProduct) {
  for (const auto& [rows, columns, row_warps, column_warps] :
       {std::array<int64_t, 4>{16, 16, 1, 1}, {32, 32, 2, 2}, {64, 16, 4, 1}, {16, 64, 1, 4}}) {
    for (const int64_t depth : {16, 32, 64}) {
      for (const int64_t stages : {2, 3, 5}) {
        ScheduledKernel(kLinear, schedule(rows, columns, depth, row_warps, column_warps, stages))
            .expect_outputs(linear, 2);
      }
    }
  }
}

TEST(LowerProgramTest, AStepWaitsOnceAndSynchronisesOnce) {
  const ScheduledKernel kernel(kLinear, schedule(32, 32, 32, 1, 1, 4));
  const kir::Kernel lowered = kernel.lowered();
  // Three groups before the loop, and one in it.
  EXPECT_EQ(count_of<kir::AsyncCommit>(lowered, lowered.body), 4);
  EXPECT_EQ(count_of<kir::AsyncWait>(lowered, lowered.body), 1);
  EXPECT_EQ(count_of<kir::Barrier>(lowered, lowered.body), 1);
  EXPECT_EQ(count_of<kir::Mma>(lowered, lowered.body), 1) << "in loops over steps and instructions";
  EXPECT_EQ(kir::shared_bytes(lowered),
            kernel.planned().kernels.front().chosen().estimate.shared_bytes);
}

}  // namespace sinter::lower_program_test
