// Operands of concatenates can be written to their places: a copy stands before those that have
// memory of their own, and a pad is a concatenate of constants.

#include "scheduler/segmentation/joins.h"

#include <gtest/gtest.h>

#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::joins_test {

std::string with_places(std::string_view text) {
  const Fusion fusion = with_places_for_joins(parsed_fusion(text));
  EXPECT_TRUE(verify(fusion).empty()) << print(fusion);
  return print(fusion);
}

std::string printed(std::string_view text) { return print(parsed_fusion(text)); }

/// Copies that the concatenates of a text need.
int64_t copies_in(std::string_view text) {
  const Fusion before = parsed_fusion(text);
  const Fusion after = with_places_for_joins(before);
  EXPECT_TRUE(verify(after).empty()) << print(after);
  return static_cast<int64_t>(after.ops.size()) - static_cast<int64_t>(before.ops.size());
}

TEST(JoinsTest, AGraphWithoutThemStaysAsItIs) {
  constexpr std::string_view kText = R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 y : f32[4, 8] = exp %v0
  return %v1
})";
  EXPECT_EQ(with_places(kText), printed(kText));
}

TEST(JoinsTest, WhatIsComputedForItAloneNeedsNoCopy) {
  EXPECT_EQ(copies_in(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[4, 8] = exp %v0
  %v2 : f32[4, 8] = neg %v0
  %v3 y : f32[4, 16] = concatenate %v1, %v2 axis(1)
  return %v3
})"),
            0);
}

TEST(JoinsTest, InputsAndOutputsAreCopied) {
  EXPECT_EQ(with_places(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[4, 8] = exp %v0
  %v2 y : f32[8, 8] = concatenate %v0, %v1 axis(0)
  return %v1, %v2
})"),
            printed(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[4, 8] = exp %v0
  %v2 : f32[4, 8] = broadcast %v0 axes(0, 1)
  %v3 : f32[4, 8] = broadcast %v1 axes(0, 1)
  %v4 y : f32[8, 8] = concatenate %v2, %v3 axis(0)
  return %v1, %v4
})"));
}

/// A value lies in one place only.
TEST(JoinsTest, WhatTwoJoinIsCopiedIntoBoth) {
  EXPECT_EQ(copies_in(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[4, 8] = exp %v0
  %v2 : f32[4, 8] = neg %v0
  %v3 y : f32[8, 8] = concatenate %v1, %v2 axis(0)
  %v4 z : f32[4, 8] = tanh %v0
  %v5 w : f32[8, 8] = concatenate %v1, %v4 axis(0)
  return %v3, %v5
})"),
            2);
}

/// Rows of 8 f32 are 32 bytes, and rows of 6 f32 24: the second of 3 such begins at 72. Columns do
/// not lie dense.
TEST(JoinsTest, CallsNeedDensePlacesOnSixteenBytes) {
  const auto copies_of_call = [](std::string_view rest) {
    return copies_in(fmt::format("fusion @f {{\n{}\n}}", rest));
  };
  EXPECT_EQ(copies_of_call(R"(%v0 x : f32[3, 8] = input
  %v1 : f32[3, 8] = exp %v0
  %v2 : f32[3, 8] = external f %v0
  %v3 y : f32[6, 8] = concatenate %v1, %v2 axis(0)
  return %v3)"),
            0);
  EXPECT_EQ(copies_of_call(R"(%v0 x : f32[3, 6] = input
  %v1 : f32[3, 6] = exp %v0
  %v2 : f32[3, 6] = external f %v0
  %v3 y : f32[6, 6] = concatenate %v1, %v2 axis(0)
  return %v3)"),
            1);
  EXPECT_EQ(copies_of_call(R"(%v0 x : f32[3, 8] = input
  %v1 : f32[3, 8] = exp %v0
  %v2 : f32[3, 8] = external f %v0
  %v3 y : f32[3, 16] = concatenate %v1, %v2 axis(1)
  return %v3)"),
            1);
}

/// An axis that does not grow has no concatenate.
TEST(JoinsTest, PadsAreConcatenatesAlongEachAxisThatGrows) {
  const Fusion padded = with_places_for_joins(parsed_fusion(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[4, 8] = exp %v0
  %v2 y : f32[6, 8] = pad %v1 low(2, 0) high(0, 0) value 7
  return %v2
})"));
  EXPECT_TRUE(verify(padded).empty()) << print(padded);
  int64_t joins = 0;
  for (const Op& op : padded.ops) {
    EXPECT_FALSE(std::holds_alternative<PadOp>(op.kind));
    if (!std::holds_alternative<ConcatenateOp>(op.kind)) continue;
    ++joins;
    EXPECT_EQ(std::get<ConcatenateOp>(op.kind).axis, 0);
    ASSERT_EQ(op.operands.size(), 2U) << "nothing behind";
    EXPECT_EQ(padded.values[op.operands[0]].shape, (Shape{2, 8}));
    EXPECT_EQ(padded.values[op.operands[1]].shape, (Shape{4, 8}));
  }
  EXPECT_EQ(joins, 1);
  EXPECT_EQ(padded.values[padded.outputs[0]].shape, (Shape{6, 8}));
}

}  // namespace sinter::joins_test
