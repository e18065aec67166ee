// What a stage of a row reads before it evaluates a chunk: the leaves of its own work, and nothing
// that registers hold already.

#include "codegen/lower/stage_reads.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::stage_reads_test {

using Tensors = ScheduledKernel::Tensors;

/// Two stages: the sum of |x| along a row, and then y = (|x| - that sum) * w + w and z = that sum *
/// w.
constexpr std::string_view kShares = R"(fusion @shares {
  %v0 x : f32[5, 128] = input
  %v1 w : f32[5, 128] = input
  %v2 : f32[5, 128] = abs %v0
  %v3 : f32[5] = reduce.sum %v2 over(1)
  %v4 : f32[5, 128] = broadcast %v3 axes(0)
  %v5 : f32[5, 128] = sub %v2, %v4
  %v6 : f32[5, 128] = mul %v5, %v1
  %v7 y : f32[5, 128] = add %v6, %v1
  %v8 z : f32[5, 128] = mul %v4, %v1
  return %v7, %v8
})";

ScheduledKernel keeping(std::string_view kept, std::string_view fir = kShares) {
  return {fir, fmt::format("schedule multi_wave {{ threads_per_row 32 vector_width 4 {} }}", kept)};
}

int64_t loads_of(const kir::Kernel& kernel, std::string_view tensor) {
  return count_of<kir::Load>(kernel, kernel.body, [&](const kir::Load& load) {
    return kernel.buffers[load.buffer].name == tensor;
  });
}

TEST(StageReadsTest, AStageReadsTheLeavesOfItsWorkOnce) {
  const kir::Kernel kernel = keeping("").lowered();
  EXPECT_EQ(loads_of(kernel, "x"), 2) << "both stages evaluate |x|";
  EXPECT_EQ(loads_of(kernel, "w"), 1) << "the last stage alone, for two outputs";
}

/// |x| * w needs no sum: the first stage stores it, and the last one reads w again.
TEST(StageReadsTest, AnOutputIsReadForInTheFirstStageThatCanStoreIt) {
  std::string fir(kShares);
  const std::string of_sum = "mul %v4, %v1";
  fir.replace(fir.find(of_sum), of_sum.size(), "mul %v2, %v1");
  EXPECT_EQ(loads_of(keeping("", fir).lowered(), "w"), 2);
}

TEST(StageReadsTest, NothingIsReadForAValueThatIsHeld) {
  for (const char* place : {"register", "shared"}) {
    const kir::Kernel kernel = keeping(fmt::format("keep %v2 in {}", place)).lowered();
    EXPECT_EQ(loads_of(kernel, "x"), 1) << place;
    EXPECT_EQ(loads_of(kernel, "w"), 1) << place;
  }
}

TEST(StageReadsTest, AnInputThatIsHeldIsNotReadAgain) {
  EXPECT_EQ(loads_of(keeping("keep %v0 in register").lowered(), "x"), 1);
  EXPECT_EQ(loads_of(keeping("keep %v0 in reload").lowered(), "x"), 2);
}

TEST(StageReadsTest, WhereverValuesAreKeptTheOutputsAreTheSame) {
  for (const char* kept : {"", "keep %v2 in register", "keep %v2 in shared", "keep %v0 in register",
                           "keep %v0 in shared", "keep %v0 in reload"}) {
    SCOPED_TRACE(kept);
    keeping(kept).expect_outputs(
        [](const Tensors& in) -> Tensors {
          constexpr size_t kColumns = 128;
          std::vector<float> y(in[0].size());
          std::vector<float> z(in[0].size());
          for (size_t row = 0; row < in[0].size(); row += kColumns) {
            float sum = 0.0F;
            for (size_t i = row; i < row + kColumns; ++i) sum += std::abs(in[0][i]);
            for (size_t i = row; i < row + kColumns; ++i) {
              y[i] = (std::abs(in[0][i]) - sum) * in[1][i] + in[1][i];
              z[i] = sum * in[1][i];
            }
          }
          return {y, z};
        },
        8);
  }
}

}  // namespace sinter::stage_reads_test
