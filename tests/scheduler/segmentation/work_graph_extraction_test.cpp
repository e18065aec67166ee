// A group of nodes is a graph of its own: its inputs are what the group reads from memory, its
// outputs what others need, and its structure has a hash that is known without making it.

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <vector>

#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "scheduler/segmentation/joins.h"
#include "tests/scheduler/segmentation/text_graph.h"
#include "tests/support/random_graph.h"

namespace sinter::work_graph_extraction_test {

using ::testing::IsEmpty;

std::string extracted(std::string_view text, const std::vector<std::string_view>& names) {
  const TextGraph graph(text);
  return print(graph.graph.extract(graph.nodes(names)).fusion);
}

TEST(WorkGraphExtractionTest, AGroupIsNamedAfterItsFirstOutput) {
  EXPECT_EQ(extracted(kChain, {"b", "c"}), R"(fusion @chain_c {
  %v0 a : f32[4096, 4096] = input
  %v1 b : f32[4096, 4096] = sin %v0
  %v2 c : f32[4096, 4096] = tanh %v1
  return %v2
}
)");
}

/// b is read by c, and a by b and d as well: both leave the group.
TEST(WorkGraphExtractionTest, OutputsAreWhatOthersNeed) {
  const TextGraph text(kDiamond);
  const Subgraph made = text.graph.extract(text.nodes({"a", "b"}));
  std::vector<std::string> outputs;
  for (const ValueId output : made.fusion.outputs)
    outputs.push_back(text.fusion.values[made.in_plan.at(output)].name);
  EXPECT_THAT(outputs, testing::UnorderedElementsAre("a", "b"));
  ASSERT_EQ(made.fusion.inputs.size(), 1U);
  EXPECT_EQ(made.in_plan.at(made.fusion.inputs[0]), named_value(text.fusion, "x"));
}

/// A cast of a 16-bit tensor has more bytes than the tensor: each group casts for itself.
TEST(WorkGraphExtractionTest, FreeOpsAreComputedInEveryGroup) {
  constexpr std::string_view kText = R"(fusion @f {
  %v0 x : bf16[64, 128] = input
  %v1 : f32[64, 128] = cast %v0
  %v2 s : f32[64] = reduce.sum %v1 over(1)
  %v3 m : f32[64] = reduce.max %v1 over(1)
  return %v2, %v3
})";
  EXPECT_EQ(extracted(kText, {"m"}), R"(fusion @f_m {
  %v0 x : bf16[64, 128] = input
  %v1 : f32[64, 128] = cast %v0
  %v2 m : f32[64] = reduce.max %v1 over(1)
  return %v2
}
)");
}

/// Whatever the group: a sound graph that has all the group's results that others need.
TEST(WorkGraphExtractionTest, GroupsAreGraphsOfTheirOwn) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Fusion fusion = random_graph(seed, {.ops = 20, .calls = true});
    const WorkGraph graph(fusion, kLimits);
    for (const auto views : {WorkGraph::LeafViews::kOps, WorkGraph::LeafViews::kInputs}) {
      for (NodeId first = 0; first + 3 <= graph.size(); ++first) {
        const std::vector<NodeId> group = {first, first + 1, first + 2};
        const Subgraph made = graph.extract(group, views);
        EXPECT_EQ(graph.extract_graph(group, views), made.fusion) << seed;
        if (made.fusion.outputs.empty()) continue;
        ASSERT_THAT(verify(made.fusion), IsEmpty()) << seed;
        for (const ValueId output : made.fusion.outputs) {
          const NodeId owner = graph.node_of(fusion.values[made.in_plan.at(output)].def);
          EXPECT_THAT(group, testing::Contains(owner));
        }
      }
    }
  }
}

/// Runs of consecutive nodes that have no call among them.
std::vector<std::vector<NodeId>> runs(const WorkGraph& graph, size_t most) {
  std::vector<std::vector<NodeId>> out;
  for (NodeId first = 0; first < graph.size(); ++first) {
    std::vector<NodeId> group;
    for (NodeId node = first; node < graph.size() && group.size() < most; ++node) {
      if (graph.nodes()[node].is_external) break;
      group.push_back(node);
      out.push_back(group);
    }
  }
  return out;
}

TEST(WorkGraphExtractionTest, StructuresAreEqualWhereGraphsAreButForConstants) {
  std::map<uint64_t, uint64_t> graph_of;      // By structure.
  std::map<uint64_t, uint64_t> structure_of;  // By hash of the graph.
  size_t groups = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Fusion fusion = with_places_for_joins(
        random_graph(seed, {.ops = 24, .joins = seed % 2 == 0, .calls = seed % 3 == 0}));
    const WorkGraph graph(fusion, kLimits);
    for (const std::vector<NodeId>& group : runs(graph, 4)) {
      ++groups;
      Fusion alone = graph.extract(group).fusion;
      for (Op& op : alone.ops) {
        if (std::holds_alternative<ConstantOp>(op.kind)) op.kind = ConstantOp{};
      }
      const uint64_t hash = structural_hash(alone);
      const uint64_t structure = graph.structure_of(group);
      EXPECT_EQ(graph_of.try_emplace(structure, hash).first->second, hash) << seed;
      EXPECT_EQ(structure_of.try_emplace(hash, structure).first->second, structure) << seed;
    }
  }
  EXPECT_LT(graph_of.size(), groups);  // Some are met again.
}

}  // namespace sinter::work_graph_extraction_test
