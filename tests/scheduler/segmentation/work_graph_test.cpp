#include "scheduler/segmentation/work_graph.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/verifier.h"
#include "scheduler/segmentation/joins.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"

namespace sinter::work_graph_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

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

/// All parts of a concatenate, however deep, are found in what reads the whole.
TEST(WorkGraphTest, GroupsThatReadWhatTheyJoinAreFound) {
  FusionBuilder b("nested");
  const ValueId x = b.input(DType::kF32, {8, 4}, "x");
  const ValueId inner = b.concatenate({b.exp(x), b.pointwise(PointwiseFn::kTanh, {x})}, 0);
  const ValueId outer = b.concatenate({inner, b.pointwise(PointwiseFn::kSin, {x})}, 0);
  b.output(b.sum(outer, {1}));
  b.output(b.sum(inner, {1}));
  const Fusion fusion = with_places_for_joins(b.build());
  const WorkGraph graph(fusion, kLimits);
  const auto node_of = [&](auto&& is_meant) {
    for (NodeId node = 0; node < graph.size(); ++node) {
      if (is_meant(fusion.ops[graph.nodes()[node].op])) return node;
    }
    return WorkGraph::kNone;
  };
  const auto function = [&](PointwiseFn fn) {
    return node_of([&](const Op& op) { return op.kind == OpKind(PointwiseOp{fn}); });
  };
  const auto sum_of = [&](int64_t rows) {
    return node_of([&](const Op& op) {
      return is_reduction(op.kind) && fusion.values[op.results.front()].shape[0].constant() == rows;
    });
  };
  const auto reads = [&](NodeId part, NodeId sum) {
    std::vector<NodeId> group = {part, sum};
    std::ranges::sort(group);
    return graph.reads_unfinished(group).has_value();
  };
  EXPECT_TRUE(reads(function(PointwiseFn::kExp), sum_of(24)));
  EXPECT_TRUE(reads(function(PointwiseFn::kSin), sum_of(24)));
  EXPECT_TRUE(reads(function(PointwiseFn::kTanh), sum_of(16)));
  EXPECT_FALSE(reads(function(PointwiseFn::kSin), sum_of(16)));
  EXPECT_FALSE(reads(sum_of(16), sum_of(24)));
  // Readers of the whole read its parts in memory.
  const ValueId part = fusion.ops[graph.nodes()[function(PointwiseFn::kExp)].op].results.front();
  EXPECT_THAT(graph.readers_in_memory(part), UnorderedElementsAre(sum_of(16), sum_of(24)));
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

}  // namespace sinter::work_graph_test
