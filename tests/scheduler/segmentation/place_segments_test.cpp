// Groups are placed in an order in which they can run, equal ones run one kernel, and what passes
// between them lies in the workspace.

#include "scheduler/segmentation/place_segments.h"

#include <gmock/gmock.h>

#include "tests/scheduler/segmentation/text_graph.h"

namespace sinter::place_segments_test {

using testing::ElementsAre;
using testing::SizeIs;
using Group = std::vector<NodeId>;

ChosenGroup chosen(TextGraph& text, const Group& nodes) {
  if (text.graph.nodes()[nodes.front()].is_external) return {.nodes = nodes};
  const GroupVerdict& verdict = text.judge.judge(nodes);
  return {.nodes = nodes,
          .views = verdict.views,
          .scheduled = &text.schedules.of(nodes, verdict.views)};
}

struct Placed {
  Plan plan;
  PlacedGroups groups;
};

Placed place(TextGraph& text, const std::vector<Group>& groups) {
  Placed out;
  out.plan.fusion = text.fusion;
  std::vector<ChosenGroup> all;
  for (const Group& nodes : groups) all.push_back(chosen(text, nodes));
  auto placed = place_segments(out.plan, text.graph, all, {});
  EXPECT_TRUE(placed.has_value());
  if (placed) out.groups = std::move(*placed);
  return out;
}

TEST(PlaceSegmentsTest, GroupsFollowWhatTheyRead) {
  TextGraph text(kChain);
  const Placed placed = place(text, {{2}, {1}, {0}});
  EXPECT_THAT(placed.groups.groups, ElementsAre(Group{0}, Group{1}, Group{2}));
  EXPECT_THAT(placed.groups.first_segment, ElementsAre(KernelId{0}, KernelId{1}, KernelId{2}));
  EXPECT_TRUE(placed.plan.is_segmented);
  ASSERT_THAT(placed.plan.kernels, SizeIs(3));
  EXPECT_THAT(placed.plan.kernels[KernelId{1}].ops, ElementsAre(text.graph.nodes()[1].op));
}

/// The input and the output are the caller's.
TEST(PlaceSegmentsTest, OnlyWhatPassesBetweenGroupsIsInTheWorkspace) {
  TextGraph text(kChain);
  const Placed apart = place(text, {{0}, {1}, {2}});
  ASSERT_THAT(apart.plan.workspace, SizeIs(2));
  for (const WorkspaceTensor& tensor : apart.plan.workspace)
    EXPECT_EQ(tensor.bytes, int64_t{4096} * 4096 * 4);
  EXPECT_EQ(apart.plan.workspace[0].value, named_value(text.fusion, "a"));
  EXPECT_EQ(apart.plan.workspace[0].writer, PlanStep(KernelId{0}));
  TextGraph again(kChain);
  EXPECT_THAT(place(again, {{0, 1, 2}}).plan.workspace, SizeIs(0));
}

TEST(PlaceSegmentsTest, CallsStandBetweenKernels) {
  TextGraph text(kCalled);
  const Placed placed = place(text, {{0}, {1}, {2}});
  ASSERT_THAT(placed.plan.kernels, SizeIs(2));
  ASSERT_THAT(placed.plan.externals, SizeIs(1));
  EXPECT_EQ(placed.plan.externals[CallId{0}].before, KernelId{1});
  EXPECT_EQ(placed.plan.externals[CallId{0}].op, text.graph.nodes()[1].op);
  ASSERT_THAT(placed.plan.workspace, SizeIs(2));
  EXPECT_EQ(placed.plan.workspace[1].writer, PlanStep(CallId{0}));
}

TEST(PlaceSegmentsTest, EqualGroupsRunOneKernel) {
  TextGraph text(R"(fusion @twice {
  %v0 x : f32[512, 1024] = input
  %v1 a : f32[512, 1024] = exp %v0
  %v2 b : f32[512, 1024] = exp %v1
  %v3 c : f32[512, 1024] = sin %v2
  return %v3
})");
  const Placed placed = place(text, {{0}, {1}, {2}});
  ASSERT_THAT(placed.plan.kernels, SizeIs(3));
  EXPECT_EQ(placed.plan.kernels[KernelId{0}].same_as, std::nullopt);
  EXPECT_EQ(placed.plan.kernels[KernelId{1}].same_as, KernelId{0});
  EXPECT_THAT(placed.plan.kernels[KernelId{1}].candidates, SizeIs(1));
  EXPECT_EQ(placed.plan.kernels[KernelId{2}].same_as, std::nullopt);
}

TEST(PlaceSegmentsTest, AGroupWithoutKernelsIsItsError) {
  TextGraph text(kChain);
  text.options.families = {};
  Plan plan;
  plan.fusion = text.fusion;
  const std::vector<ChosenGroup> all = {chosen(text, {0, 1, 2})};
  const auto placed = place_segments(plan, text.graph, all, {});
  ASSERT_FALSE(placed.has_value());
  EXPECT_EQ(placed.error().kind, ErrorKind::kUnsupported);
}

}  // namespace sinter::place_segments_test
