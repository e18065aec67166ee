// A member of a list, as a graph of its own, has one axis. Its names have no numbers, so that
// members share one text.

#include "scheduler/analysis/member_graph.h"

#include <gtest/gtest.h>

#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::member_graph_test {

std::string graph_of_member(std::string_view text, size_t member, int64_t elements) {
  const Fusion fusion = parsed_fusion(text);
  MemberFinder finder(fusion);
  const Fusion graph = member_graph(fusion, finder, finder.run().at(member), elements);
  EXPECT_TRUE(verify(graph).empty()) << print(graph);
  return print(graph);
}

TEST(MemberGraphTest, TensorsHaveOneAxisAndScalarsNone) {
  constexpr std::string_view kText = R"(fusion @step3 {
  %v0 rate : f32 = input
  %v1 x0 : f32[4, 6] = input align(8)
  %v2 : f32[4, 6] = broadcast %v0 axes()
  %v3 y0 : f32[4, 6] = mul %v1, %v2
  %v4 x1 : f32[5] = input align(8)
  %v5 : f32[5] = broadcast %v0 axes()
  %v6 y1 : f32[5] = mul %v4, %v5
  return %v3, %v6
})";
  EXPECT_EQ(graph_of_member(kText, 0, 24), R"(fusion @step {
  %v0 x : f32[24] = input align(8)
  %v1 rate : f32 = input align(4)
  %v2 : f32[24] = broadcast %v1 axes()
  %v3 y : f32[24] = mul %v0, %v2
  return %v3
}
)");
  EXPECT_EQ(graph_of_member(kText, 1, 24), graph_of_member(kText, 0, 24));
}

/// Reshapes between tensors of one size only rename elements.
TEST(MemberGraphTest, OtherShapesOfATensorAreTheTensor) {
  EXPECT_EQ(graph_of_member(R"(fusion @f {
  %v0 x : f32[4, 6] = input
  %v1 : f32[24] = reshape %v0
  %v2 : f32[24] = exp %v1
  %v3 : f32[2, 12] = reshape %v2
  %v4 y : f32[2, 12] = neg %v3
  return %v4
})",
                            0, 7),
            R"(fusion @f {
  %v0 x : f32[7] = input
  %v1 : f32[7] = exp %v0
  %v2 y : f32[7] = neg %v1
  return %v2
}
)");
}

TEST(MemberGraphTest, AnOutputThatOverwritesAnInputStillDoes) {
  EXPECT_EQ(graph_of_member(R"(fusion @f {
  %v0 x : f32[2, 2] = input
  %v1 y : f32[2, 2] = exp %v0
  return %v1 alias(%v0)
})",
                            0, 4),
            R"(fusion @f {
  %v0 x : f32[4] = input
  %v1 y : f32[4] = exp %v0
  return %v1 alias(%v0)
}
)");
}

}  // namespace sinter::member_graph_test
