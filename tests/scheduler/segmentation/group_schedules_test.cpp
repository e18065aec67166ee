#include "scheduler/segmentation/group_schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/subgraphs.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/offers.h"
#include "tests/scheduler/segmentation/text_graph.h"
#include "tests/support/h200.h"

namespace sinter::group_schedules_test {

/// Sums of rows among four times as many functions, all of recent values: more than one kernel can
/// keep.
Fusion long_chain(size_t sums, uint32_t seed) {
  constexpr size_t kWindow = 6;
  constexpr size_t kFunctions = 4;
  std::mt19937 random(seed);
  FusionBuilder b("chain");
  std::vector<ValueId> values;
  for (size_t i = 0; i < kWindow; ++i) values.push_back(b.input(DType::kBF16, {4096, 1024}));
  const auto recent = [&] { return values[values.size() - 1 - random() % kWindow]; };
  for (size_t i = 0; i < sums; ++i) {
    for (size_t j = 0; j < kFunctions; ++j) {
      const ValueId x = recent();
      values.push_back(b.add(b.exp(x), recent()));
    }
    const ValueId x = recent();
    values.push_back(b.mul(x, b.broadcast_over(b.sum(x, {1}), x, {1})));
  }
  for (size_t i = 1; i <= kWindow; ++i) b.output(values[values.size() - i]);
  return b.build();
}

struct Trees {
  explicit Trees(Fusion graph_of) : fusion(std::move(graph_of)) {
    all = group_greedily(graph, judge, {.in_rounds = true}).groups;
  }
  Fusion fusion;
  FamilySet families = scheduling_families();
  PlanOptions options{.simplify = false};
  WorkGraph graph{fusion, kLimits};
  GroupJudge judge{graph, kLimits, families};
  std::vector<MergeTree> all;
};

/// Asks for a tree and all that it is made of; the wholes that are faster than their parts.
size_t check_outcomes(const MergeTree& tree, GroupSchedules& schedules, GroupSchedules& whole) {
  if (tree.parts.empty()) return 0;
  size_t faster = 0;
  double parts_us = 0.0;
  for (const MergeTree& part : tree.parts) {
    faster += check_outcomes(part, schedules, whole);
    parts_us += schedules.best_us(part);
  }
  const double us = whole.like(tree).predicted_us();
  EXPECT_EQ(schedules.is_slower_than_parts(tree), us > parts_us) << tree.nodes.size() << " nodes";
  EXPECT_DOUBLE_EQ(schedules.best_us(tree), std::min(us, parts_us));
  return faster + (us <= parts_us ? 1 : 0);
}

TEST(GroupSchedulesTest, PartsTellOnlyWhatTheWholeWould) {
  for (const uint32_t seed : {0U, 1U, 2U}) {
    const Trees trees(long_chain(48, seed));
    GroupSchedules schedules(trees.graph, kLimits, trees.options);
    GroupSchedules whole(trees.graph, kLimits, trees.options);
    size_t faster = 0;
    for (const MergeTree& tree : trees.all) faster += check_outcomes(tree, schedules, whole);
    EXPECT_GT(faster, 0U);
  }
}

// What the cheap test refuses, the judge refuses too: it is asked first to save the judging.
TEST(GroupSchedulesTest, GroupsOfTooManyTensorsAreRefusedWithoutTheirGraphs) {
  constexpr size_t kInputs = 150;
  FusionBuilder b("sum");
  const auto input = [&] { return b.input(DType::kF32, {4096, 1024}); };
  ValueId sum = input();
  for (size_t i = 0; i < kInputs; ++i) sum = b.add(sum, b.exp(input()));
  b.output(sum);
  const Fusion fusion = b.build();
  const WorkGraph graph(fusion, kLimits);
  const FamilySet families = scheduling_families();
  GroupJudge judge(graph, kLimits, families);
  size_t refused = 0;
  std::vector<NodeId> group;
  for (NodeId node = 0; node < graph.size(); ++node) {
    group.push_back(node);
    const bool may_fit = judge.may_fit(group);
    EXPECT_EQ(judge.judge(group).legal, may_fit) << group.size();
    refused += may_fit ? 0 : 1;
  }
  EXPECT_GT(refused, 0U);
  EXPECT_LT(refused, group.size());
}

TEST(GroupSchedulesTest, WholesThatPartsCondemnAreNotScheduled) {
  const Trees trees(long_chain(48, 0));
  GroupSchedules schedules(trees.graph, kLimits, trees.options);
  const auto largest = std::ranges::max_element(
      trees.all, {}, [](const MergeTree& tree) { return tree.nodes.size(); });
  ASSERT_TRUE(schedules.is_slower_than_parts(*largest));
  const size_t asked = schedules.size();
  schedules.like(*largest);
  EXPECT_EQ(schedules.size(), asked + 1);
}

/// So many outputs, each the input times a number of its own.
Fusion multiples(int64_t count) {
  FusionBuilder b("multiples");
  const ValueId x = b.input(DType::kF32, {4096, 1024}, "x");
  for (int64_t i = 0; i < count; ++i) b.output(b.mul(x, b.constant(static_cast<double>(i + 2))));
  return b.build();
}

TEST(GroupSchedulesTest, GroupsThatDifferInNumbersAloneAreAnalysedAndScheduledOnce) {
  const auto work_of = [](int64_t count) {
    const Trees trees(multiples(count));
    GroupSchedules schedules(trees.graph, kLimits, trees.options);
    double us = 0.0;
    for (const MergeTree& tree : trees.all) us += schedules.best_us(tree);
    EXPECT_GT(us, 0.0);
    return std::pair(trees.judge.counts().analysed, schedules.size());
  };
  const auto [analysed, scheduled] = work_of(64);
  const auto [analysed_of_many, scheduled_of_many] = work_of(1024);
  // Groups double from round to round until a kernel has no more arguments.
  EXPECT_LT(analysed_of_many, analysed + 32);
  EXPECT_LT(scheduled_of_many, scheduled + 32);
}

TEST(GroupSchedulesTest, TimesOfGroupsThatAreAlikeAreTheirs) {
  const Trees trees(multiples(40));
  GroupSchedules schedules(trees.graph, kLimits, trees.options);
  for (const MergeTree& tree : trees.all) {
    EXPECT_DOUBLE_EQ(schedules.like(tree).predicted_us(),
                     schedules.of(tree.nodes, tree.verdict->views).predicted_us());
  }
}

// A softmax of an exponential: values are kept across its row barriers.
TEST(GroupSchedulesTest, FactsOfTheJudgeGiveTheSameSchedules) {
  TextGraph text(R"(fusion @softmax {
  %v0 x : f32[4096, 4096] = input
  %v1 e : f32[4096, 4096] = exp %v0
  %v2 m : f32[4096] = reduce.sum %v1 over(1)
  %v3 b : f32[4096, 4096] = broadcast %v2 axes(0)
  %v4 y : f32[4096, 4096] = div %v1, %v3
  return %v4
})");
  std::vector<NodeId> all(text.graph.size());
  std::iota(all.begin(), all.end(), NodeId{0});
  const ScheduledGroup& expected = text.schedules.of(all, text.judge.judge(all).views);
  GroupJudge judge(text.graph, kLimits, text.families);
  GroupSchedules schedules(text.graph, kLimits, text.options);
  const GroupVerdict& verdict = judge.judge(all);
  ASSERT_TRUE(verdict.legal);
  const ScheduledGroup& scheduled = schedules.like(all, verdict, &judge);
  EXPECT_FALSE(judge.take_facts(all)) << "the facts were not taken";
  ASSERT_TRUE(expected.segment && scheduled.segment);
  EXPECT_EQ(scheduled.outputs, expected.outputs);
  EXPECT_EQ(scheduled.segment->decisions, expected.segment->decisions);
  const KernelPlan& kernel = scheduled.segment->kernels.front();
  EXPECT_FALSE(kernel.facts.kept.empty());
  EXPECT_EQ(kernel.facts.fusion, expected.segment->kernels.front().facts.fusion);
  EXPECT_EQ(kernel.candidates, expected.segment->kernels.front().candidates);
}

}  // namespace sinter::group_schedules_test
