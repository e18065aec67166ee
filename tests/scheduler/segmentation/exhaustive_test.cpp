// Of all groupings without cycles the cheapest is found, and no cost is asked for twice, or where a
// bound already excludes the group.

#include "scheduler/segmentation/exhaustive.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/scheduler/segmentation/text_graph.h"

namespace sinter::exhaustive_test {

using testing::ElementsAre;
using Group = std::vector<NodeId>;

std::optional<double> nothing(std::span<const NodeId>) { return 0.0; }

/// A cost by the number of nodes.
GroupCost by_size(std::vector<std::optional<double>> costs) {
  return
      [costs = std::move(costs)](std::span<const NodeId> group) { return costs[group.size() - 1]; };
}

TEST(ExhaustiveTest, OneGroupOrOneForEachNode) {
  const TextGraph text(kChain);
  ASSERT_EQ(text.graph.size(), 3U);
  const auto together = group_exhaustively(text.graph, nothing, by_size({1, 1, 1}));
  ASSERT_TRUE(together);
  EXPECT_THAT(together->groups, ElementsAre(Group{0, 1, 2}));
  EXPECT_EQ(together->us, 1.0);
  const auto apart = group_exhaustively(text.graph, nothing, by_size({1, 4, 9}));
  ASSERT_TRUE(apart);
  EXPECT_THAT(apart->groups, ElementsAre(Group{0}, Group{1}, Group{2})) << "in an order to run";
  EXPECT_EQ(apart->us, 3.0);
}

TEST(ExhaustiveTest, GroupsThatNoKernelRunsAreLeftOut) {
  const TextGraph text(kChain);
  const auto pairs = group_exhaustively(text.graph, nothing, by_size({1, 1, std::nullopt}));
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->us, 2.0);
  EXPECT_EQ(pairs->groups.size(), 2U);
  EXPECT_FALSE(group_exhaustively(text.graph, nothing, [](std::span<const NodeId> group) {
    return group.back() == 2 ? std::nullopt : std::optional(1.0);
  })) << "nothing runs the last node";
}

/// The group of a and d costs nothing, but b and c would have to run between its nodes.
TEST(ExhaustiveTest, NoGroupClosesACycle) {
  const TextGraph text(kDiamond);
  const Group ends = text.nodes({"a", "d"});
  const auto found = group_exhaustively(text.graph, nothing, [&](std::span<const NodeId> group) {
    return std::ranges::equal(group, ends) ? 0.0 : 10.0 * static_cast<double>(group.size());
  });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->us, 10.0 * static_cast<double>(text.graph.size()));
  EXPECT_THAT(found->groups, testing::Not(testing::Contains(ends)));
}

TEST(ExhaustiveTest, CostsAreAskedOnceAndOnlyWithinTheBound) {
  const TextGraph text(kDiamond);
  std::set<Group> bounded;
  std::set<Group> asked;
  const auto least = [&](std::span<const NodeId> group) -> std::optional<double> {
    EXPECT_TRUE(bounded.emplace(group.begin(), group.end()).second) << "asked twice";
    return group.size() > 1 ? 1999.5 : 1.0;
  };
  const auto cost = [&](std::span<const NodeId> group) -> std::optional<double> {
    EXPECT_TRUE(asked.emplace(group.begin(), group.end()).second) << "asked twice";
    return group.size() > 1 ? 2000.0 : 1.0;
  };
  ASSERT_TRUE(group_exhaustively(text.graph, least, cost));
  EXPECT_LE(asked.size(), bounded.size());
  EXPECT_LT(asked.size(), bounded.size()) << "half a microsecond is less than a node";
}

TEST(ExhaustiveTest, AGraphWithoutNodesHasNoGroups) {
  const TextGraph text(kChain);
  const WorkGraph empty(text.fusion, kLimits, {}, {});
  ASSERT_EQ(empty.size(), 0U);
  const auto found = group_exhaustively(empty, nothing, nothing);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->groups.empty());
  EXPECT_EQ(found->us, 0.0);
}

}  // namespace sinter::exhaustive_test
