#include "scheduler/segmentation/work_graph.h"

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/verifier.h"
#include "tests/support/random_graph.h"

namespace sinter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const DeviceLimits kLimits = *find_device("H200");

TEST(WorkGraphTest, WhatCostsNothingHasNoOwner) {
  FusionBuilder b("norm");
  const ValueId x = b.input(DType::kBF16, {64, 128}, "x");
  const ValueId wide = b.cast(x, DType::kF32);
  const ValueId sum = b.sum(wide, {1});
  const ValueId centred = b.sub(wide, b.broadcast_over(sum, wide, {1}));
  b.output(b.cast(centred, DType::kBF16), "y");
  const Fusion fusion = b.build();
  const WorkGraph graph(fusion, kLimits);
  // x as bf16 and the sums are fewer bytes than the difference in f32.
  ASSERT_EQ(graph.size(), 2U);
  EXPECT_TRUE(graph.is_free(wide));
  EXPECT_TRUE(graph.is_free(centred));
  EXPECT_FALSE(graph.is_free(sum));
  EXPECT_THAT(graph.nodes()[0].leaves, ElementsAre(x));
  EXPECT_THAT(graph.nodes()[1].leaves, ElementsAre(x, sum));
  EXPECT_THAT(graph.nodes()[1].producers, ElementsAre(0));
}

TEST(WorkGraphTest, DearFunctionsHaveAnOwnerEvenWhereTheyMoveNothingMore) {
  FusionBuilder b("dear");
  const ValueId x = b.input(DType::kBF16, {64, 128});
  const ValueId cheap = b.neg(b.cast(x, DType::kF32));
  const ValueId dear = b.pointwise(PointwiseFn::kPow, {cheap, cheap});
  b.output(b.add(dear, cheap));
  const Fusion fusion = b.build();
  const WorkGraph graph(fusion, kLimits);
  EXPECT_TRUE(graph.is_free(cheap));
  EXPECT_FALSE(graph.is_free(dear));
}

TEST(WorkGraphTest, OperandsOfExternalCallsLieInMemory) {
  FusionBuilder b("call");
  const ValueId x = b.input(DType::kBF16, {8, 16});
  const ValueId turned = b.permute(x, {1, 0});
  const ValueId made = b.external("f", {turned}, {{DType::kF32, {4}}})[0];
  b.output(b.neg(made));
  const Fusion fusion = b.build();
  const WorkGraph graph(fusion, kLimits);
  ASSERT_EQ(graph.size(), 3U);
  EXPECT_FALSE(graph.nodes()[0].is_external);
  EXPECT_TRUE(graph.nodes()[1].is_external);
  EXPECT_THAT(graph.nodes()[1].producers, ElementsAre(0));
  const NodeId turning = 0;
  EXPECT_THAT(graph.extract(std::span(&turning, 1)).fusion.outputs, SizeIs(1));
}

// Whatever the group: a sound graph that has all the group's results that others need.
TEST(WorkGraphTest, GroupsAreGraphsOfTheirOwn) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Fusion fusion = random_graph(seed, {.ops = 20, .calls = true});
    const WorkGraph graph(fusion, kLimits);
    for (const auto views : {WorkGraph::LeafViews::kOps, WorkGraph::LeafViews::kInputs}) {
      for (NodeId first = 0; first + 3 <= graph.size(); ++first) {
        const std::vector<NodeId> group = {first, first + 1, first + 2};
        const Subgraph made = graph.extract(group, views);
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

TEST(WorkGraphTest, DoesNotDependOnTheOrderOfInsertion) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Fusion fusion = random_graph(seed, {.ops = 30});
    const Fusion other = shuffled(fusion, seed + 1);
    ASSERT_THAT(verify(other), IsEmpty());
    const WorkGraph a(fusion, kLimits);
    const WorkGraph b(other, kLimits);
    ASSERT_EQ(a.size(), b.size());
    for (NodeId node = 0; node < a.size(); ++node) {
      EXPECT_EQ(fusion.ops[a.nodes()[node].op].kind, other.ops[b.nodes()[node].op].kind) << seed;
      EXPECT_EQ(a.nodes()[node].producers, b.nodes()[node].producers) << seed;
    }
  }
}

}  // namespace
}  // namespace sinter
