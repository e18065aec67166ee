// Values that threads keep from stage to stage are read from memory once: in registers, or in
// shared memory by asynchronous copies of whole vectors.

#include "codegen/lower/row_residents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/codegen/scheduled_kernel.h"

namespace sinter::row_residents_test {

using Tensors = ScheduledKernel::Tensors;

/// y = (x - the maximum of its row) * w.
std::string shifted_rows(int64_t columns) {
  return fmt::format(R"(fusion @shifted {{
  %v0 x : f32[5, {0}] = input
  %v1 w : bf16[{0}] = input
  %v2 : f32[5] = reduce.max %v0 over(1)
  %v3 : f32[5, {0}] = broadcast %v2 axes(0)
  %v4 : f32[5, {0}] = sub %v0, %v3
  %v5 : f32[{0}] = cast %v1
  %v6 : f32[5, {0}] = broadcast %v5 axes(1)
  %v7 y : f32[5, {0}] = mul %v4, %v6
  return %v7
}})",
                     columns);
}

ScheduledKernel keeping(int64_t columns, std::string_view fields) {
  return {shifted_rows(columns), fmt::format("schedule multi_wave {{ {} }}", fields)};
}

void expect_shifted_rows(int64_t columns, std::string_view fields) {
  keeping(columns, fields)
      .expect_outputs(
          [=](const Tensors& in) -> Tensors {
            std::vector<float> y = in[0];
            for (auto row = y.begin(); row != y.end(); row += columns) {
              const float most = *std::max_element(row, row + columns);
              for (int64_t i = 0; i < columns; ++i)
                row[i] = (row[i] - most) * in[1][static_cast<size_t>(i)];
            }
            return {y};
          },
          2);
}

/// Loads of a tensor, and copies of it to shared memory.
std::pair<int64_t, int64_t> reads_of(const kir::Kernel& kernel, std::string_view tensor) {
  return {count_of<kir::Load>(
              kernel, kernel.body,
              [&](const kir::Load& load) { return kernel.buffers[load.buffer].name == tensor; }),
          count_of<kir::AsyncCopy>(kernel, kernel.body, [&](const kir::AsyncCopy& copy) {
            return kernel.buffers[copy.global].name == tensor;
          })};
}

/// One batch of a row: 32 threads of 4 elements.
TEST(RowResidentsTest, AKeptInputIsReadOnceWhereOthersAreReadAgain) {
  const auto reads = [](std::string_view kept) {
    return reads_of(
        keeping(128, fmt::format("threads_per_row 32 vector_width 4 {}", kept)).lowered(), "x");
  };
  EXPECT_EQ(reads("keep %v0 in register"), std::pair(int64_t{1}, int64_t{0}));
  EXPECT_EQ(reads("keep %v0 in shared"), std::pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(reads("keep %v0 in reload"), std::pair(int64_t{2}, int64_t{0}));
}

TEST(RowResidentsTest, RowsThatEndWithinABatch) {
  for (const int64_t columns : {4, 100, 128, 132, 300}) {
    for (const char* place : {"register", "shared"}) {
      expect_shifted_rows(columns,
                          fmt::format("threads_per_row 32 vector_width 4 keep %v0 in {}", place));
    }
  }
}

/// Unaligned rows have peeled elements, which go through registers.
TEST(RowResidentsTest, PeeledElementsAreKeptToo) {
  for (const int64_t columns : {3, 129, 255}) {
    for (const char* place : {"register", "shared"}) {
      expect_shifted_rows(columns, fmt::format("threads_per_row 32 vector_width 4 "
                                               "row_access unaligned keep %v0 in {}",
                                               place));
    }
  }
}

/// The weight is the same in every row: blocks that stay read it before the first.
TEST(RowResidentsTest, WhatAllRowsShareIsKeptFromRowToRow) {
  for (const char* place : {"register", "shared"}) {
    const std::string fields = fmt::format(
        "threads_per_row 32 vector_width 4 persistent_blocks 2 keep %v0 in register keep %v1 in {}",
        place);
    expect_shifted_rows(128, fields);
    const kir::Kernel kernel = keeping(128, fields).lowered();
    for_each<kir::For>(kernel, kernel.body, [&](const kir::For& loop) {
      if (kernel.vars[loop.index].name != "first_row") return;
      EXPECT_EQ(count_of<kir::Load>(
                    kernel, loop.body,
                    [&](const kir::Load& load) { return kernel.buffers[load.buffer].name == "w"; }),
                0);
    });
  }
}

TEST(RowResidentsTest, ARowInAdvanceIsTheNextOne) {
  expect_shifted_rows(132,
                      "threads_per_row 32 vector_width 4 persistent_blocks 2 prefetch_rows 1 "
                      "keep %v0 in register");
}

}  // namespace sinter::row_residents_test
