#include "fusion_ir/passes/expand_contractions.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"

namespace sinter::expand_contractions_test {

TEST(ExpandContractionsTest, ProductsAreSummedOverTheWholeSpace) {
  const Fusion fusion = parse_fusion(R"(fusion @f extents(rows) {
  %v0 x : bf16[rows, 64] = input
  %v1 w : bf16[32, 64] = input
  %v2 y : f32[rows, 32] = contract.sum %v0, %v1 left(0, 2) right(1, 2) over(2)
  return %v2
})")
                            .value();
  EXPECT_EQ(print(expand_contractions(fusion).value()), R"(fusion @f extents(rows) {
  %v0 x : bf16[rows, 64] = input
  %v1 w : bf16[32, 64] = input
  %v2 : f32[rows, 64] = cast %v0
  %v3 : f32[rows, 32, 64] = broadcast %v2 axes(0, 2)
  %v4 : f32[32, 64] = cast %v1
  %v5 : f32[rows, 32, 64] = broadcast %v4 axes(1, 2)
  %v6 : f32[rows, 32, 64] = mul %v3, %v5
  %v7 y : f32[rows, 32] = reduce.sum %v6 over(2)
  return %v7
}
)");
}

TEST(ExpandContractionsTest, AxesArePermutedIntoTheOrderOfTheSpace) {
  const Fusion fusion = parse_fusion(R"(fusion @f {
  %v0 : f32[6, 2] = input
  %v1 : f32[3, 6] = input
  %v2 : f32[2, 3] = contract.max %v0, %v1 left(2, 0) right(1, 2) over(2)
  return %v2
})")
                            .value();
  EXPECT_EQ(print(expand_contractions(fusion).value()), R"(fusion @f {
  %v0 : f32[6, 2] = input
  %v1 : f32[3, 6] = input
  %v2 : f32[2, 6] = permute %v0 order(1, 0)
  %v3 : f32[2, 3, 6] = broadcast %v2 axes(0, 2)
  %v4 : f32[2, 3, 6] = broadcast %v1 axes(1, 2)
  %v5 : f32[2, 3, 6] = add %v3, %v4
  %v6 : f32[2, 3] = reduce.max %v5 over(2)
  return %v6
}
)");
}

TEST(ExpandContractionsTest, NoContractionIsLeftAndTheGraphIsSound) {
  for (const ContractFn fn : {ContractFn::kSum, ContractFn::kMax, ContractFn::kLogSumExp}) {
    for (const char* equation : {"ab,bc->ac", "ab,bc->ca", "ab,ba->", "ba,bc->ac"}) {
      SCOPED_TRACE(equation);
      FusionBuilder b("f");
      b.output(b.contract(equation, b.input(DType::kF16, {8, 8}), b.input(DType::kF16, {8, 8}),
                          {.fn = fn}));
      const Fusion expanded = expand_contractions(b.build()).value();
      EXPECT_TRUE(verify(expanded).empty());
      for (const Op& op : expanded.ops) EXPECT_FALSE(std::holds_alternative<ContractOp>(op.kind));
    }
  }
}

TEST(ExpandContractionsTest, GraphsWithoutOneStayAsTheyAre) {
  FusionBuilder b("f");
  b.output(b.exp(b.input(DType::kF32, {8})));
  EXPECT_FALSE(expand_contractions(b.build()));
}

// The passes work beside contractions, and leave them in the graph.
TEST(ExpandContractionsTest, SimplifyKeepsContractions) {
  FusionBuilder b("f");
  const ValueId x = b.input(DType::kBF16, {8, 16});
  const ValueId w = b.input(DType::kBF16, {16, 4});
  const ValueId first = b.matmul(x, w);
  const ValueId again = b.matmul(x, w);
  b.output(b.add(b.exp(first), b.exp(again)));
  const Fusion simple = simplify(b.build(), {.verify = true});
  const auto is_contraction = [](const Op& op) {
    return std::holds_alternative<ContractOp>(op.kind);
  };
  EXPECT_EQ(std::ranges::count_if(simple.ops, is_contraction), 1) << "equal ones are one";
}

}  // namespace sinter::expand_contractions_test
