// Sums of products that become contractions, and those that stay as they are.

#include "fusion_ir/passes/recognize_contractions.h"

#include <gmock/gmock.h>

#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"

namespace sinter::recognize_contractions_test {

using ::testing::HasSubstr;
using ::testing::Not;

/// What an element-by-element product becomes, simplified.
std::string recognized(std::string_view text) {
  const Fusion fusion = simplify(parse_fusion(text).value());
  const auto found = recognize_contractions(fusion);
  return found ? print(simplify(*found)) : "nothing";
}

/// y[m, n] of x and w, whose shapes and places among (m, k, n) are given.
std::string product(std::string_view x, std::string_view x_axes, std::string_view w,
                    std::string_view w_axes, std::string_view type = "bf16",
                    std::string_view tail = "") {
  return fmt::format(R"(fusion @product {{
  %v0 x : {4}[{0}] = input
  %v1 w : {4}[{2}] = input
  %v2 : f32[{0}] = cast %v0
  %v3 : f32[{2}] = cast %v1
  %v4 : f32[8, 16, 24] = broadcast %v2 axes({1})
  %v5 : f32[8, 16, 24] = broadcast %v3 axes({3})
  %v6 : f32[8, 16, 24] = mul %v4, %v5
  %v7 y : f32[8, 24] = reduce.sum %v6 over(1)
  return %v7{5}
}})",
                     x, x_axes, w, w_axes, type, tail);
}

TEST(RecognizeContractionsTest, MatrixProductsBecomeContractions) {
  EXPECT_THAT(recognized(product("8, 16", "0, 1", "16, 24", "1, 2")),
              HasSubstr("contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2)"));
  for (const char* type : {"f16", "f8e4m3"}) {
    EXPECT_THAT(recognized(product("8, 16", "0, 1", "16, 24", "1, 2", type)),
                HasSubstr("contract.sum"))
        << type;
  }
}

TEST(RecognizeContractionsTest, OperandsMayBePermutedAndHaveABatch) {
  EXPECT_THAT(recognized(R"(fusion @batch {
  %v0 x : bf16[3, 16, 8] = input
  %v1 w : bf16[3, 24, 16] = input
  %v2 : bf16[3, 8, 16] = permute %v0 order(0, 2, 1)
  %v3 : f32[3, 8, 16] = cast %v2
  %v4 : f32[3, 24, 16] = cast %v1
  %v5 : f32[3, 8, 24, 16] = broadcast %v3 axes(0, 1, 3)
  %v6 : f32[3, 8, 24, 16] = broadcast %v4 axes(0, 2, 3)
  %v7 : f32[3, 8, 24, 16] = mul %v5, %v6
  %v8 y : f32[3, 8, 24] = reduce.sum %v7 over(3)
  return %v8
})"),
              HasSubstr("contract.sum %v0, %v1 left(0, 3, 1) right(0, 2, 3) over(3)"));
}

std::string of_f32(std::string_view pair, std::string_view reduce) {
  return fmt::format(R"(fusion @f32 {{
  %v0 x : f32[8, 16] = input
  %v1 w : f32[16, 24] = input
  %v2 : f32[8, 16, 24] = broadcast %v0 axes(0, 1)
  %v3 : f32[8, 16, 24] = broadcast %v1 axes(1, 2)
  %v4 : f32[8, 16, 24] = {} %v2, %v3
  %v5 y : f32[8, 24] = reduce.{} %v4 over(1)
  return %v5
}})",
                     pair, reduce);
}

TEST(RecognizeContractionsTest, F32AndMaximaOfSumsBecomeContractions) {
  EXPECT_THAT(recognized(of_f32("mul", "sum")),
              HasSubstr("contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2)\n"));
  EXPECT_THAT(recognized(of_f32("add", "max")),
              HasSubstr("contract.max %v0, %v1 left(0, 2) right(2, 1) over(2)\n"));
}

TEST(RecognizeContractionsTest, OtherSumsStay) {
  // An operand without an axis of its own, a product that is read elsewhere, a sum of sums.
  EXPECT_EQ(recognized(product("16", "1", "16, 24", "1, 2")), "nothing");
  EXPECT_EQ(recognized(product("8, 24", "0, 2", "16, 24", "1, 2")), "nothing");
  EXPECT_EQ(recognized(of_f32("add", "sum")), "nothing");
  EXPECT_EQ(recognized(of_f32("mul", "max")), "nothing");
  EXPECT_EQ(recognized(product("8, 16", "0, 1", "16, 24", "1, 2", "bf16", ", %v6")), "nothing");
}

}  // namespace sinter::recognize_contractions_test
