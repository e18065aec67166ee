// Groups merge where one kernel is legal and its bound of time is less than for two, in any order,
// and no two groups wait for each other.

#include "scheduler/segmentation/segmenter.h"

#include <gmock/gmock.h>

#include <functional>

#include "tests/scheduler/segmentation/text_graph.h"
#include "tests/support/random_graph.h"

namespace sinter::segmenter_test {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Group = std::vector<NodeId>;

std::vector<Group> groups_of(TextGraph& text, MergeOrder order = {}) {
  std::vector<Group> out;
  for (const MergeTree& tree : group_greedily(text.graph, text.judge, order).groups)
    out.push_back(tree.nodes);
  return out;
}

std::vector<MergeOrder> all_orders() {
  using First = MergeOrder::First;
  std::vector<MergeOrder> out;
  for (const bool backwards : {false, true}) {
    for (const First first : {First::kProducers, First::kReductions, First::kNothing, First::kReady,
                              First::kLargeReady}) {
      for (const bool in_rounds : {false, true})
        out.push_back({.backwards = backwards, .first = first, .in_rounds = in_rounds});
    }
  }
  return out;
}

TEST(SegmenterTest, AChainIsOneGroupInEveryOrder) {
  for (const MergeOrder& order : all_orders()) {
    TextGraph text(kChain);
    const Grouping grouping = group_greedily(text.graph, text.judge, order);
    ASSERT_EQ(grouping.groups.size(), 1U);
    EXPECT_THAT(grouping.groups[0].nodes, ElementsAre(0, 1, 2));
    if (order.first == MergeOrder::First::kProducers) {
      EXPECT_EQ(grouping.groups[0].kind, MergeKind::kProducer);
    }
  }
}

TEST(SegmenterTest, WhatNoKernelRunsStaysApart) {
  TextGraph text(kAllRowsFirst);
  EXPECT_THAT(groups_of(text), UnorderedElementsAre(text.nodes({"s"}), text.nodes({"y"})));
}

TEST(SegmenterTest, CallsStayAlone) {
  TextGraph text(kCalled);
  const Grouping grouping = group_greedily(text.graph, text.judge);
  EXPECT_EQ(grouping.groups.size(), 3U);
  for (const MergeTree& tree : grouping.groups) {
    const bool calls = tree.nodes == text.nodes({"m"});
    EXPECT_EQ(tree.verdict == nullptr, calls) << "no kernel runs a call";
  }
}

/// Two functions of one tensor read it once; of two tensors of one shape they save a launch.
TEST(SegmenterTest, ATreeSaysWhyItsPartsMerged) {
  TextGraph siblings(R"(fusion @siblings {
  %v0 x : f32[512, 1024] = input
  %v1 a : f32[512, 1024] = exp %v0
  %v2 b : f32[512, 1024] = sin %v0
  return %v1, %v2
})");
  const Grouping shared = group_greedily(siblings.graph, siblings.judge);
  ASSERT_EQ(shared.groups.size(), 1U);
  EXPECT_EQ(shared.groups[0].kind, MergeKind::kSiblings);
  TextGraph strangers(R"(fusion @strangers {
  %v0 x : f32[512, 1024] = input
  %v1 z : f32[512, 1024] = input
  %v2 a : f32[512, 1024] = exp %v0
  %v3 b : f32[512, 1024] = sin %v1
  return %v2, %v3
})");
  const Grouping apart = group_greedily(strangers.graph, strangers.judge);
  ASSERT_EQ(apart.groups.size(), 1U);
  EXPECT_EQ(apart.groups[0].kind, MergeKind::kHorizontal);
  ASSERT_EQ(apart.groups[0].parts.size(), 2U);
}

TEST(SegmenterTest, ContinuesFromGroupsThatThereAre) {
  TextGraph text(kDiamond);
  std::vector<MergeTree> given(1);
  given[0].nodes = text.nodes({"b", "c"});
  given[0].verdict = &text.judge.judge(given[0].nodes);
  const Grouping grouping = group_greedily(text.graph, text.judge, {}, std::move(given));
  const auto holder = std::ranges::find_if(grouping.groups, [&](const MergeTree& tree) {
    return std::ranges::binary_search(tree.nodes, text.node("b"));
  });
  ASSERT_NE(holder, grouping.groups.end());
  EXPECT_TRUE(std::ranges::binary_search(holder->nodes, text.node("c")));
}

/// True if some order runs the groups one by one.
bool can_run(const WorkGraph& graph, const std::vector<Group>& groups) {
  std::vector<size_t> group_of(graph.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    for (const NodeId node : groups[group]) group_of[node] = group;
  }
  std::vector<int> state(groups.size());  // 1: entered, 2: left.
  const std::function<bool(size_t)> visit = [&](size_t group) {
    if (state[group] != 0) return state[group] == 2;
    state[group] = 1;
    for (const NodeId node : groups[group]) {
      for (const NodeId producer : graph.nodes()[node].producers) {
        if (group_of[producer] != group && !visit(group_of[producer])) return false;
      }
    }
    state[group] = 2;
    return true;
  };
  for (size_t group = 0; group < groups.size(); ++group) {
    if (!visit(group)) return false;
  }
  return true;
}

TEST(SegmenterTest, GroupingsOfRandomGraphsHaveEveryNodeOnceAndCanRun) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const MergeOrder order = all_orders()[seed * 3 % 20];
    TextGraph text(random_graph(seed, {.ops = 24, .calls = seed % 2 == 0}));
    const std::vector<Group> groups = groups_of(text, order);
    std::vector<int> counts(text.graph.size());
    for (const Group& group : groups) {
      EXPECT_TRUE(std::ranges::is_sorted(group));
      for (const NodeId node : group) ++counts[node];
    }
    EXPECT_THAT(counts, testing::Each(1)) << seed;
    EXPECT_TRUE(can_run(text.graph, groups)) << seed;
  }
}

}  // namespace sinter::segmenter_test
