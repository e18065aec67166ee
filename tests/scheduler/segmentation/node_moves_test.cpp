// Nodes move from group to group, and groups merge, as long as that takes less time.

#include "scheduler/segmentation/node_moves.h"

#include <gmock/gmock.h>

#include "tests/scheduler/segmentation/text_graph.h"

namespace sinter::node_moves_test {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Group = std::vector<NodeId>;

double time_of(TextGraph& text, const Partition& groups) {
  double us = 0.0;
  for (const Group& group : groups)
    us += text.schedules.like(group, text.judge.judge(group)).predicted_us();
  return us;
}

TEST(NodeMovesTest, PartsOfAChainBecomeOneKernel) {
  for (const Partition& from : {Partition{{0}, {1}, {2}}, Partition{{0, 1}, {2}},
                                Partition{{0}, {1, 2}}, Partition{{0, 1, 2}}}) {
    TextGraph text(kChain);
    EXPECT_THAT(move_nodes(text.graph, text.judge, text.schedules, from),
                ElementsAre(Group{0, 1, 2}));
  }
}

TEST(NodeMovesTest, WhatNoKernelRunsStaysApart) {
  TextGraph text(kAllRowsFirst);
  const Partition apart = {text.nodes({"s"}), text.nodes({"y"})};
  EXPECT_EQ(move_nodes(text.graph, text.judge, text.schedules, apart), apart);
}

TEST(NodeMovesTest, CallsAreNotMoved) {
  TextGraph text(kCalled);
  const Partition apart = {{0}, {1}, {2}};
  EXPECT_THAT(move_nodes(text.graph, text.judge, text.schedules, apart),
              UnorderedElementsAre(Group{0}, Group{1}, Group{2}));
}

/// a and d without b and c would wait for themselves. From any other start the time does not grow.
TEST(NodeMovesTest, TheTimeNeverGrows) {
  for (const bool pairs : {false, true}) {
    TextGraph text(kDiamond);
    const Partition from =
        pairs ? Partition{text.nodes({"a", "b"}), text.nodes({"c"}), text.nodes({"d"})}
              : Partition{text.nodes({"a"}), text.nodes({"b", "c"}), text.nodes({"d"})};
    const Partition moved = move_nodes(text.graph, text.judge, text.schedules, from);
    EXPECT_LE(time_of(text, moved), time_of(text, from));
    size_t nodes = 0;
    for (const Group& group : moved) nodes += group.size();
    EXPECT_EQ(nodes, text.graph.size());
  }
}

}  // namespace sinter::node_moves_test
