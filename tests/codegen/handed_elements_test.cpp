// What warps of an epilogue evaluate of a product without reducing its rows, of whole numbers
// against loops.

#include "codegen/lower/handed_elements.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "codegen/cuda/cuda_emitter.h"
#include "scheduler/program/program_walks.h"
#include "tests/codegen/product_kernel.h"
#include "tests/support/effort.h"

namespace sinter::handed_elements_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Tensors = ScheduledKernel::Tensors;

/// What follows a product %v2 of inputs %v0 and %v1, and what it is at a row and column.
struct Elements {
  std::string_view inputs, fir;
  /// One value for each output.
  std::vector<float> (*evaluate)(float product, const Tensors& in, size_t row, size_t column,
                                 size_t columns);
};

constexpr Elements kThreeTypes = {
    "", R"(
  %v3 : bf16[{m}, {n}] = cast %v2
  %v4 : f32 = constant 0x1.9p+6
  %v5 : f32[{m}, {n}] = broadcast %v4 axes()
  %v6 : f32[{m}, {n}] = min %v2, %v5
  %v7 : f32[{m}, {n}] = neg %v5
  %v8 : f32[{m}, {n}] = max %v6, %v7
  %v9 : i8[{m}, {n}] = cast %v8
  return %v3, %v2, %v9
)",
    [](float product, const Tensors&, size_t, size_t, size_t) {
      return std::vector<float>{product, product, std::clamp(product, -100.0F, 100.0F)};
    }};

constexpr Elements kRounded = {"", R"(
  %v3 y : bf16[{m}, {n}] = cast %v2
  return %v3
)",
                               [](float product, const Tensors&, size_t, size_t, size_t) {
                                 return std::vector<float>{product};
                               }};

// A bias, a factor of the rows and a residual that is overwritten.
constexpr Elements kAllInputs = {
    R"(
  %v2 b : f32[{n}] = input
  %v3 f : f32[{m}] = input
  %v4 r : f32[{m}, {n}] = input
)",
    R"(
  %v6 : bf16[{m}, {n}] = cast %v5
  %v7 : f32[{m}, {n}] = cast %v6
  %v8 : f32[{m}, {n}] = broadcast %v2 axes(1)
  %v9 : f32[{m}, {n}] = add %v7, %v8
  %v10 : f32[{m}, {n}] = broadcast %v3 axes(0)
  %v11 : f32[{m}, {n}] = mul %v9, %v10
  %v12 y : f32[{m}, {n}] = add %v11, %v4
  return %v12 alias(%v4)
)",
    [](float product, const Tensors& in, size_t row, size_t column, size_t columns) {
      return std::vector<float>{(product + in[2][column]) * in[3][row] +
                                in[4][row * columns + column]};
    }};

void expect_elements(const Elements& elements, const ProductExtents& extents,
                     const ProductSchedule& schedule) {
  SCOPED_TRACE(fmt::format("{} x {} by {}{}", extents.m, extents.n, print(schedule.schedule()),
                           elements.fir));
  const auto with_sizes = [&](std::string_view text) {
    return fmt::format(fmt::runtime(text), fmt::arg("m", extents.m), fmt::arg("n", extents.n),
                       fmt::arg("k", extents.k));
  };
  std::string fir = with_sizes(
      "fusion @elements {{\n  %v0 x : bf16[{m}, {k}] = input\n  %v1 w : bf16[{n}, {k}] = input");
  fir += elements.inputs.empty() ? "\n" : with_sizes(elements.inputs);
  fir += with_sizes(fmt::format(
      "  %v{} : f32[{{m}}, {{n}}] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)",
      elements.inputs.empty() ? 2 : 5));
  fir += with_sizes(elements.fir) + "}";
  const ScheduledKernel kernel(parsed_fusion(fir), schedule.schedule());
  ASSERT_EQ(kernel.planned().kernels.size(), 1U);
  EXPECT_EQ(kir::shared_bytes(kernel.lowered()),
            kernel.planned().kernels.front().chosen().estimate.shared_bytes);
  kernel.expect_outputs(
      [&](const Tensors& in) {
        const std::vector<float> product = product_of(in, extents);
        Tensors out;
        for (size_t i = 0; i < product.size(); ++i) {
          const std::vector<float> values =
              elements.evaluate(product[i], in, i / extents.n, i % extents.n, extents.n);
          out.resize(values.size());
          for (size_t j = 0; j < values.size(); ++j) out[j].push_back(values[j]);
        }
        return out;
      },
      2);
}

// Last tiles that rows and columns end in, rows of less than a tile, and several tiles of a block.
TEST(HandedElementsTest, WarpsOfAnEpilogueEvaluateElements) {
  Slice slice(3);
  for (const size_t columns : {8U, 64U, 104U, 136U, 256U, 272U}) {
    for (const size_t rows : {1U, 75U, 300U}) {
      for (const Elements& elements : {kThreeTypes, kRounded, kAllInputs}) {
        for (const ProductSchedule& schedule : kEpilogueSchedules) {
          if (!has_rows_for_all(schedule, static_cast<int64_t>(columns / 8))) continue;
          if (slice.takes()) expect_elements(elements, {.m = rows, .n = columns}, schedule);
        }
      }
    }
  }
}

// Rows of a batch that a tile reaches past are those of the next one.
TEST(HandedElementsTest, BatchesEndWithinATile) {
  const ProductExtents extents{.m = 75, .n = 136, .k = 16, .batches = 3};
  for (const ProductSchedule& schedule : kEpilogueSchedules) {
    SCOPED_TRACE(print(schedule.schedule()));
    const ScheduledKernel kernel(
        parsed_fusion(fmt::format(R"(fusion @batches {{
  %v0 x : bf16[3, {m}, {k}] = input
  %v1 w : bf16[3, {n}, {k}] = input
  %v2 y : f32[3, {m}, {n}] = contract.sum %v0, %v1 left(0, 1, 3) right(0, 2, 3) over(3)
  %v3 : bf16[3, {m}, {n}] = cast %v2
  return %v3
}})",
                                  fmt::arg("m", extents.m), fmt::arg("n", extents.n),
                                  fmt::arg("k", extents.k))),
        schedule.schedule());
    kernel.expect_outputs([&](const Tensors& in) { return Tensors{product_of(in, extents)}; }, 1);
  }
}

/// A bias and a residual behind a product that is rounded.
constexpr std::string_view kCommon = R"(fusion @common {
  %v0 x : bf16[300, 64] = input
  %v1 w : bf16[256, 64] = input
  %v2 b : bf16[256] = input
  %v3 r : bf16[300, 256] = input
  %v4 : f32[300, 256] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  %v5 : bf16[300, 256] = cast %v4
  %v6 : f32[300, 256] = cast %v5
  %v7 : f32[256] = cast %v2
  %v8 : f32[300, 256] = broadcast %v7 axes(1)
  %v9 : f32[300, 256] = add %v6, %v8
  %v10 : f32[300, 256] = cast %v3
  %v11 : f32[300, 256] = add %v9, %v10
  %v12 y : bf16[300, 256] = cast %v11
  return %v12
})";

// A lane keeps what all rows share, and loads as much of the rest together as its registers hold.
TEST(HandedElementsTest, CommonInputsAreLoadedOnce) {
  const ScheduledKernel kernel(parsed_fusion(kCommon), kEpilogueSchedules.front().schedule());
  const program::Program program =
      matmul_program(kernel.facts(), kernel.planned().kernels.front().chosen().schedule);
  const auto* region = program::step_of<program::Region>(program);
  ASSERT_NE(region, nullptr);
  EXPECT_FALSE(region->holds_rows);
  EXPECT_EQ(region->kept, std::vector<ValueId>{ValueId{2}});
  EXPECT_EQ(region->ahead, 4);
}

// ptxas keeps an offset for each vector where the column is converted with it, and then loads one
// after the other.
TEST(HandedElementsTest, VectorsOfARowShareAnAddress) {
  const ScheduledKernel kernel(parsed_fusion(kCommon), kEpilogueSchedules.front().schedule());
  EXPECT_THAT(emit_cuda(kernel.lowered()), AllOf(HasSubstr("to_i64(first_column) + to_i64(u"),
                                                 Not(HasSubstr("to_i64(first_column + u"))));
}

}  // namespace sinter::handed_elements_test
