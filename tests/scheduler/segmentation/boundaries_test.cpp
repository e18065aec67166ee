#include "scheduler/segmentation/boundaries.h"

#include <gmock/gmock.h>

#include <optional>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/match.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/joins.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"

namespace sinter::boundaries_test {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

std::vector<NodeId> all_nodes(const WorkGraph& graph) {
  std::vector<NodeId> out;
  for (NodeId node = 0; node < graph.size(); ++node) out.push_back(node);
  return out;
}

NodeId node_named(const WorkGraph& graph, std::string_view name) {
  const Fusion& fusion = graph.fusion();
  for (const ValueId id : fusion.value_ids()) {
    if (fusion.values[id].name == name) return graph.node_of(fusion.values[id].def);
  }
  return WorkGraph::kNone;
}

/// x -> three bf16 tensors of its functions -> their f32 sum -> its row sums: 6 bytes an element
/// before the sum, 4 behind it.
Fusion waist(int64_t rows = 8192, int64_t columns = 4096) {
  FusionBuilder b("waist");
  const Shape shape = {rows, columns};
  const ValueId x = b.input(DType::kF32, shape, "x");
  const ValueId total = b.named(b.sum(x, {0}), "total");
  const ValueId scaled = b.mul(x, b.broadcast(total, shape, {1}));
  std::vector<ValueId> narrow;
  const std::array<ValueId, 3> made = {b.exp(scaled), b.log(scaled), b.sqrt(scaled)};
  for (const ValueId value : made)
    narrow.push_back(b.named(b.cast(value, DType::kBF16), fmt::format("narrow{}", value.index)));
  ValueId sum = b.cast(narrow[0], DType::kF32);
  for (const size_t i : {1U, 2U}) sum = b.add(sum, b.cast(narrow[i], DType::kF32));
  b.named(sum, "sum");
  b.output(b.sum(b.exp(sum), {1}), "rows");
  return b.build();
}

/// The nodes that make the narrow tensors, and those that sum them up.
struct WaistParts {
  std::vector<NodeId> narrow;
  std::vector<NodeId> behind;
};
WaistParts waist_parts(const WorkGraph& graph) {
  WaistParts out;
  for (NodeId node = 0; node < graph.size(); ++node) {
    const WorkNode& work = graph.nodes()[node];
    const ValueId result = graph.fusion().ops[work.op].results[0];
    const bool is_behind = std::ranges::any_of(work.producers, [&](NodeId producer) {
      return std::ranges::binary_search(out.narrow, producer) ||
             std::ranges::binary_search(out.behind, producer);
    });
    if (is_behind) out.behind.push_back(node);
    if (graph.fusion().values[result].type == DType::kBF16) out.narrow.push_back(node);
  }
  return out;
}

TEST(BoundariesTest, TheCutIsWhereTheChainIsNarrow) {
  const Fusion fusion = waist();
  const WorkGraph graph(fusion, kLimits);
  const NodeId last = node_named(graph, "rows");
  const std::vector<NodeId> nodes = all_nodes(graph);
  const WaistParts parts = waist_parts(graph);
  const BoundaryCuts cuts = cuts_of_fewest_bytes(graph, nodes, parts.narrow, std::span(&last, 1));
  const std::vector<NodeId>& before = cuts.fewest_before;
  std::vector<NodeId> after;
  std::ranges::set_difference(nodes, before, std::back_inserter(after));
  EXPECT_TRUE(std::ranges::binary_search(before, node_named(graph, "sum")));
  EXPECT_EQ(bytes_between(graph, before, after), 2 * 4 * 8192 * 4096);
  // The exponential of the sum has as many bytes.
  EXPECT_THAT(cuts.fewest_behind, ElementsAreArray(nodes.begin(), nodes.end() - 1));
}

/// Tensors of more bytes together than half of what counts as unlimited: they are counted in
/// coarser units, or an edge of one would be as good as none that may be cut.
TEST(BoundariesTest, TheCutIsWhereTheChainIsNarrowHoweverLongItIs) {
  constexpr int64_t kRows = int64_t{1} << 20;
  constexpr int64_t kColumns = int64_t{1} << 19;
  const Fusion fusion = waist(kRows, kColumns);
  const WorkGraph graph(fusion, kLimits);
  const NodeId last = node_named(graph, "rows");
  const std::vector<NodeId> nodes = all_nodes(graph);
  const WaistParts parts = waist_parts(graph);
  ASSERT_GT(graph.bytes(fusion.inputs.front()), int64_t{1} << 39);
  const BoundaryCuts cuts = cuts_of_fewest_bytes(graph, nodes, parts.narrow, std::span(&last, 1));
  const std::vector<NodeId>& before = cuts.fewest_before;
  std::vector<NodeId> after;
  std::ranges::set_difference(nodes, before, std::back_inserter(after));
  EXPECT_TRUE(std::ranges::binary_search(before, node_named(graph, "sum")));
  EXPECT_FALSE(std::ranges::binary_search(before, last));
  EXPECT_EQ(bytes_between(graph, before, after), 2 * 4 * kRows * kColumns);
  // From the other end an edge that counts as much as unlimited ones is not the last node's either.
  EXPECT_THAT(cuts.fewest_behind, ElementsAreArray(nodes.begin(), nodes.end() - 1));
}

TEST(BoundariesTest, ReadingAnInputAgainMayBeTheLeast) {
  const Fusion fusion = waist();
  const WorkGraph graph(fusion, kLimits);
  const NodeId first = node_named(graph, "total");
  const NodeId last = node_named(graph, "rows");
  EXPECT_THAT(
      cuts_of_fewest_bytes(graph, all_nodes(graph), std::span(&first, 1), std::span(&last, 1))
          .fewest_before,
      ElementsAre(first));
}

TEST(BoundariesTest, WhatIsNeededFirstCannotComeLast) {
  const Fusion fusion = waist();
  const WorkGraph graph(fusion, kLimits);
  const NodeId first = node_named(graph, "total");
  const NodeId last = node_named(graph, "rows");
  const BoundaryCuts cuts =
      cuts_of_fewest_bytes(graph, all_nodes(graph), std::span(&last, 1), std::span(&first, 1));
  EXPECT_THAT(cuts.fewest_before, IsEmpty());
  EXPECT_THAT(cuts.fewest_behind, IsEmpty());
}

TEST(BoundariesTest, OutputsAreWrittenAnyway) {
  FusionBuilder b("kept");
  const ValueId x = b.input(DType::kF32, {64, 64}, "x");
  const ValueId e = b.exp(x);
  const ValueId t = b.log(e);
  b.output(e, "e");
  b.output(b.sqrt(t), "y");
  const Fusion fusion = b.build();
  const WorkGraph graph(fusion, kLimits);
  ASSERT_EQ(graph.size(), 3U);
  const std::vector<NodeId> nodes = {0, 1, 2};
  constexpr int64_t kBytes = 4 * 64 * 64;
  EXPECT_EQ(bytes_between(graph, std::span(nodes).first(1), std::span(nodes).subspan(1)), kBytes);
  EXPECT_EQ(bytes_between(graph, std::span(nodes).first(2), std::span(nodes).subspan(2)),
            2 * kBytes);
  EXPECT_THAT(
      cuts_of_fewest_bytes(graph, nodes, std::span(nodes).first(1), std::span(nodes).subspan(2))
          .fewest_before,
      ElementsAre(0));
}

/// The fewest bytes of all cuts, one by one.
std::optional<int64_t> fewest_bytes(const WorkGraph& graph, NodeId first, NodeId last) {
  std::optional<int64_t> out;
  const auto count = static_cast<uint32_t>(graph.size());
  for (uint32_t set = 0; set < uint32_t{1} << count; ++set) {
    const auto has = [&](NodeId node) { return (set >> node & 1U) != 0; };
    if (!has(first) || has(last)) continue;
    std::vector<NodeId> before;
    std::vector<NodeId> after;
    bool closed = true;
    for (NodeId node = 0; node < count; ++node) {
      (has(node) ? before : after).push_back(node);
      for (const NodeId producer : graph.nodes()[node].producers)
        closed &= !has(node) || has(producer);
    }
    if (!closed) continue;
    const int64_t bytes = bytes_between(graph, before, after);
    if (!out || bytes < *out) out = bytes;
  }
  return out;
}

TEST(BoundariesTest, CutsOfRandomGraphsAreTheBestOfAll) {
  int count = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Fusion fusion = with_places_for_joins(random_graph(
        seed, {.ops = 9, .batch = 8, .rows = 16, .columns = 64, .joins = seed % 2 == 0}));
    const WorkGraph graph(fusion, kLimits);
    if (graph.size() < 3 || graph.size() > 12) continue;
    const auto last = static_cast<NodeId>(graph.size() - 1);
    for (NodeId first = 0; first < last; ++first) {
      const auto best = fewest_bytes(graph, first, last);
      const std::vector<NodeId> nodes = all_nodes(graph);
      std::vector<NodeId> earliest;
      const BoundaryCuts cuts =
          cuts_of_fewest_bytes(graph, nodes, std::span(&first, 1), std::span(&last, 1));
      for (const std::vector<NodeId>& before : {cuts.fewest_before, cuts.fewest_behind}) {
        ASSERT_EQ(before.empty(), !best.has_value()) << fusion.name;
        if (!best) continue;
        std::vector<NodeId> after;
        std::ranges::set_difference(nodes, before, std::back_inserter(after));
        EXPECT_EQ(bytes_between(graph, before, after), *best) << fusion.name << " from " << first;
        EXPECT_TRUE(std::ranges::includes(before, earliest));
        earliest = before;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 500);
}

// ---- In groupings

class MovedBoundaries {
 public:
  explicit MovedBoundaries(const Fusion& fusion)
      : graph_(fusion, kLimits),
        judge_(graph_, kLimits, options_.families),
        schedules_(graph_, kLimits, options_) {}

  const WorkGraph& graph() const { return graph_; }
  Partition moved(Partition groups) {
    return move_boundaries(graph_, judge_, schedules_, std::move(groups));
  }
  double us(const Partition& groups) {
    double us = 0.0;
    for (const std::vector<NodeId>& group : groups)
      us += schedules_.of(group, judge_.judge(group).views).predicted_us();
    return us;
  }

 private:
  PlanOptions options_;
  WorkGraph graph_;
  GroupJudge judge_;
  GroupSchedules schedules_;
};

TEST(BoundariesTest, GroupsMeetWhereTheChainIsNarrow) {
  const Fusion fusion = waist();
  MovedBoundaries boundaries(fusion);
  const WorkGraph& graph = boundaries.graph();
  // All but the column sum behind it; the boundary moves to where fewer bytes cross.
  // A column sum, what makes the narrow tensors of it, and what sums those up.
  const NodeId total = node_named(graph, "total");
  const std::vector<NodeId> behind = waist_parts(graph).behind;
  Partition before = {{total}, {}, behind};
  for (NodeId node = 0; node < graph.size(); ++node) {
    if (node != total && !std::ranges::binary_search(behind, node)) before[1].push_back(node);
  }
  const NodeId last = node_named(graph, "rows");
  const Partition after = boundaries.moved(before);
  EXPECT_LT(boundaries.us(after), boundaries.us(before));
  EXPECT_LT(bytes_between(graph, after[1], after[2]), bytes_between(graph, before[1], before[2]));
  EXPECT_TRUE(std::ranges::binary_search(after[2], last)) << "the reduction stays";
  EXPECT_EQ(boundaries.moved(after), after);
}

TEST(BoundariesTest, RandomGroupingsStayGroupingsAndTakeNoLonger) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Fusion fusion = random_graph(seed, {.ops = 30, .rows = 64, .columns = 512});
    MovedBoundaries boundaries(fusion);
    Partition groups;
    for (NodeId node = 0; node < boundaries.graph().size(); ++node) groups.push_back({node});
    const double alone_us = boundaries.us(groups);
    const Partition moved = boundaries.moved(groups);
    EXPECT_LE(boundaries.us(moved), alone_us);
    std::vector<NodeId> nodes;
    for (const std::vector<NodeId>& group : moved) {
      EXPECT_TRUE(std::ranges::is_sorted(group));
      nodes.insert(nodes.end(), group.begin(), group.end());
    }
    std::ranges::sort(nodes);
    EXPECT_EQ(nodes, all_nodes(boundaries.graph()));
  }
}

}  // namespace sinter::boundaries_test
