#include "scheduler/analysis/min_cut.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace sinter::min_cut_test {

using testing::ElementsAre;

int64_t capacity_of(const std::vector<FlowEdge>& edges, const auto& near) {
  int64_t sum = 0;
  for (const FlowEdge& edge : edges) sum += near(edge.from) && !near(edge.to) ? edge.capacity : 0;
  return sum;
}

std::vector<bool> nearest_source(uint32_t count, const std::vector<FlowEdge>& edges,
                                 uint32_t source, uint32_t sink) {
  return minimum_cuts(count, edges, source, sink).nearest_source;
}

TEST(MinCutTest, CutsTheCheapestEdgeOfAChain) {
  const std::vector<FlowEdge> edges = {{0, 1, 5}, {1, 2, 2}, {2, 3, 4}};
  EXPECT_THAT(nearest_source(4, edges, 0, 3), ElementsAre(true, true, false, false));
}

TEST(MinCutTest, TakesTheCutNearestToTheSourceAmongEqualOnes) {
  const std::vector<FlowEdge> edges = {{0, 1, 2}, {1, 2, 2}, {2, 3, 2}};
  EXPECT_THAT(nearest_source(4, edges, 0, 3), ElementsAre(true, false, false, false));
  EXPECT_THAT(minimum_cuts(4, edges, 0, 3).nearest_sink, ElementsAre(true, true, true, false));
}

TEST(MinCutTest, TwoCheapBranchesBeatOneDearJoin) {
  const std::vector<FlowEdge> edges = {{0, 1, 2}, {0, 2, 2}, {1, 3, 9}, {2, 3, 9}, {3, 4, 5}};
  EXPECT_THAT(nearest_source(5, edges, 0, 4), ElementsAre(true, false, false, false, false));
}

TEST(MinCutTest, NeverCutsUnlimitedEdges) {
  const std::vector<FlowEdge> edges = {{0, 1, FlowEdge::kUnlimited}, {1, 2, 1000}};
  EXPECT_THAT(nearest_source(3, edges, 0, 2), ElementsAre(true, true, false));
}

TEST(MinCutTest, VerticesWithoutAPathStayWithTheSink) {
  EXPECT_THAT(nearest_source(3, {}, 0, 2), ElementsAre(true, false, false));
}

RC_GTEST_PROP(MinCutTest, IsTheSmallestOfAllCutsAndTheNearestOfThose, ()) {
  const auto count = *rc::gen::inRange<uint32_t>(2, 11);
  const uint32_t sink = count - 1;
  std::vector<FlowEdge> edges;
  const auto vertex = rc::gen::inRange<uint32_t>(0, count);
  const auto edge_count = *rc::gen::inRange<size_t>(0, 30);
  for (size_t i = 0; i < edge_count; ++i) {
    // A path of unlimited edges from source to sink has no finite cut, so they only start at the
    // source and never end at the sink.
    const uint32_t from = *vertex;
    const uint32_t to = *vertex;
    if (from == to) continue;
    const bool unlimited = from == 0 && to != sink && *rc::gen::inRange(0, 4) == 0;
    edges.push_back(
        {from, to, unlimited ? FlowEdge::kUnlimited : *rc::gen::inRange<int64_t>(0, 6)});
  }
  const MinimumCuts cuts = minimum_cuts(count, edges, 0, sink);
  RC_ASSERT(cuts.nearest_source.size() == count);
  RC_ASSERT(cuts.nearest_source[0] && !cuts.nearest_source[sink]);
  RC_ASSERT(cuts.nearest_sink.size() == count);
  RC_ASSERT(cuts.nearest_sink[0] && !cuts.nearest_sink[sink]);

  int64_t least = INT64_MAX;
  // The intersection and the union of minimum cuts are minimum cuts.
  uint32_t common = 0;
  uint32_t united = 0;
  for (uint32_t set = 0; set < (1U << count); ++set) {
    const auto in_set = [&](uint32_t v) { return ((set >> v) & 1U) != 0; };
    if (!in_set(0) || in_set(sink)) continue;
    const int64_t capacity = capacity_of(edges, in_set);
    if (capacity < least) common = united = set;
    if (capacity == least) {
      common &= set;
      united |= set;
    }
    least = std::min(least, capacity);
  }
  for (uint32_t v = 0; v < count; ++v) {
    RC_ASSERT(cuts.nearest_source[v] == (((common >> v) & 1U) != 0));
    RC_ASSERT(cuts.nearest_sink[v] == (((united >> v) & 1U) != 0));
  }
}

}  // namespace sinter::min_cut_test
