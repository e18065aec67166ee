#include "codegen/kernel/kernel_uniformity.h"

#include <gmock/gmock.h>

#include "tests/codegen/passes/small_kernel.h"

namespace sinter::kernel_uniformity_test {

using kir::Uniformity;

/// Of the initial value of the last variable that a body declares at its outermost level.
Uniformity of_last(std::string_view body) {
  const kir::Kernel kernel = kernel_of(body);
  const kir::UniformityAnalysis analysis(kernel);
  const auto* declared = std::get_if<kir::Declare>(&kernel.stmts[kernel.body.back()].kind);
  EXPECT_NE(declared, nullptr) << body;
  return declared == nullptr ? Uniformity::kThread : analysis.of(declared->init);
}

Uniformity of_value(std::string_view expression) {
  return of_last(fmt::format("let %r0 x : i32 = {}\n", expression));
}

TEST(KernelUniformityTest, WhatThreadsOfABlockShare) {
  for (const char* expression : {"3", "block_index", "mul(block_index, 7)", "cast<i32>(%p0)"})
    EXPECT_EQ(of_value(expression), Uniformity::kBlock) << expression;
}

TEST(KernelUniformityTest, WarpsShareTheirNumber) {
  EXPECT_EQ(of_value("div(thread_index, 32)"), Uniformity::kWarp);
  EXPECT_EQ(of_value("div(thread_index, 64)"), Uniformity::kBlock) << "of 64 threads";
  EXPECT_EQ(of_value("add(block_index, div(thread_index, 32))"), Uniformity::kWarp);
  EXPECT_EQ(of_value("div(thread_index, 16)"), Uniformity::kThread);
  EXPECT_EQ(of_value("rem(thread_index, 32)"), Uniformity::kThread);
}

TEST(KernelUniformityTest, ValuesWrittenWhereThreadsPartDiffer) {
  EXPECT_EQ(of_last(R"(
  let %r0 x : i32 = 1
  if lt(thread_index, 3) {
    %r0 = 2
  }
  let %r1 y : i32 = %r0
)"),
            Uniformity::kThread);
  EXPECT_EQ(of_last(R"(
  let %r0 x : i32 = 1
  if lt(block_index, 3) {
    %r0 = 2
  }
  let %r1 y : i32 = %r0
)"),
            Uniformity::kBlock);
}

// A value that a loop carries differs as soon as what it is made of does, in whatever order.
TEST(KernelUniformityTest, LoopsCarryWhatDiffers) {
  EXPECT_EQ(of_last(R"(
  let %r0 a : i32 = 0
  let %r1 b : i32 = 0
  for %r2 i : i32 = 0 to 4 step 1 {
    %r1 = %r0
    %r0 = thread_index
  }
  let %r3 y : i32 = %r1
)"),
            Uniformity::kThread);
}

TEST(KernelUniformityTest, ControlDivergesWithItsCondition) {
  const auto of_branch = [](std::string_view condition) {
    const kir::Kernel kernel = kernel_of(fmt::format("if {} {{ barrier }}", condition));
    return kir::UniformityAnalysis(kernel).of_control(kernel.stmts[kernel.body.front()].kind);
  };
  EXPECT_EQ(of_branch("lt(block_index, 3)"), Uniformity::kBlock);
  EXPECT_EQ(of_branch("lt(div(thread_index, 32), 1)"), Uniformity::kWarp);
  EXPECT_EQ(of_branch("lt(thread_index, 3)"), Uniformity::kThread);
}

}  // namespace sinter::kernel_uniformity_test
