// Tensors are accessed in vectors where their strides and alignment allow, and element by element
// elsewhere, with the same results.

#include <gmock/gmock.h>

#include <set>

#include "codegen/lower/tile_lowering.h"
#include "tests/codegen/scheduled_kernel.h"

namespace sinter::tile_accesses_test {

using testing::ElementsAre;
using Tensors = ScheduledKernel::Tensors;

constexpr std::string_view kVectors =
    "schedule pointwise { threads_per_row 32 vector_width 4 unroll 1 }";

/// The widths of all loads of a tensor.
std::set<int64_t> widths_of(const ScheduledKernel& kernel, std::string_view tensor) {
  const kir::Kernel lowered = kernel.lowered();
  std::set<int64_t> widths;
  for_each<kir::Load>(lowered, lowered.body, [&](const kir::Load& load) {
    if (lowered.buffers[load.buffer].name == tensor) widths.insert(load.width);
  });
  return widths;
}

std::string negated(std::string_view input, std::string_view output = "") {
  return fmt::format(R"(fusion @negated {{
  %v0 x : f32[8, 64] = input {}
  %v1 y : f32[8, 64] = neg %v0
  return %v1 {}
}})",
                     input, output);
}

TEST(TileAccessesTest, AlignmentAndStridesDecideTheWidth) {
  EXPECT_THAT(widths_of({negated(""), kVectors}, "x"), ElementsAre(4));
  EXPECT_THAT(widths_of({negated("align(4)"), kVectors}, "x"), ElementsAre(1));
  EXPECT_THAT(widths_of({negated("strides(68, 1)"), kVectors}, "x"), ElementsAre(4))
      << "68 elements are whole vectors";
  EXPECT_THAT(widths_of({negated("strides(65, 1)"), kVectors}, "x"), ElementsAre(1));
  EXPECT_THAT(widths_of({negated("strides(1, 8)", "strides(64, 1)"), kVectors}, "x"),
              ElementsAre(1))
      << "neighbours are 8 elements apart";
}

/// y = x + z: z is a slice, a transpose, or repeated.
void expect_sum(std::string_view z, int64_t z_elements,
                const std::function<size_t(size_t row, size_t column)>& place) {
  const ScheduledKernel kernel(fmt::format(R"(fusion @sum {{
  %v0 x : f32[8, 64] = input
  {}
  %v3 y : f32[8, 64] = add %v0, %v2
  return %v3
}})",
                                           z),
                               kVectors);
  kernel.expect_outputs(
      [&](const Tensors& in) -> Tensors {
        EXPECT_EQ(std::ssize(in[1]), z_elements);
        std::vector<float> y = in[0];
        for (size_t i = 0; i < y.size(); ++i) y[i] += in[1][place(i / 64, i % 64)];
        return {y};
      },
      1);
}

TEST(TileAccessesTest, ViewsAddressTheirTensor) {
  expect_sum("%v1 z : f32[64, 8] = input %v2 : f32[8, 64] = permute %v1 order(1, 0)", 512,
             [](size_t row, size_t column) { return column * 8 + row; });
  expect_sum(
      "%v1 z : f32[8, 70] = input "
      "%v2 : f32[8, 64] = slice %v1 start(0, 3) stop(8, 67) step(1, 1)",
      560, [](size_t row, size_t column) { return row * 70 + column + 3; });
  expect_sum(
      "%v1 z : f32[16, 128] = input "
      "%v2 : f32[8, 64] = slice %v1 start(1, 0) stop(16, 128) step(2, 2)",
      2048, [](size_t row, size_t column) { return (2 * row + 1) * 128 + 2 * column; });
  expect_sum("%v1 z : f32[8] = input %v2 : f32[8, 64] = broadcast %v1 axes(0)", 8,
             [](size_t row, size_t) { return row; });
  expect_sum("%v1 z : f32[64] = input %v2 : f32[8, 64] = broadcast %v1 axes(1)", 64,
             [](size_t, size_t column) { return column; });
}

/// A vector of the row's one value is a single load.
TEST(TileAccessesTest, AValueThatStandsStillInAVectorIsLoadedOnce) {
  const ScheduledKernel kernel(R"(fusion @rows {
  %v0 x : f32[8, 64] = input
  %v1 z : f32[8] = input
  %v2 : f32[8, 64] = broadcast %v1 axes(0)
  %v3 y : f32[8, 64] = add %v0, %v2
  return %v3
})",
                               kVectors);
  EXPECT_THAT(widths_of(kernel, "z"), ElementsAre(1));
  EXPECT_THAT(widths_of(kernel, "x"), ElementsAre(4));
}

/// An output with padded rows: what lies between the rows stays.
TEST(TileAccessesTest, OutputsHaveTheirStrides) {
  for (const char* layout : {"strides(68, 1)", "strides(65, 1)", "strides(1, 8)", "align(4)"}) {
    ScheduledKernel(negated("", layout), kVectors)
        .expect_outputs(
            [](const Tensors& in) -> Tensors {
              std::vector<float> y = in[0];
              for (float& value : y) value = -value;
              return {y};
            },
            1);
  }
}

}  // namespace sinter::tile_accesses_test
