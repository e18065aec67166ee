// Whether a kernel can run a group is found once for each structure, and limits of a kernel without
// making the group's graph.

#include "scheduler/segmentation/group_judge.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "fusion_ir/fusion_builder.h"
#include "tests/scheduler/segmentation/text_graph.h"

namespace sinter::group_judge_test {

const GroupVerdict& judged(TextGraph& text, const std::vector<NodeId>& group) {
  return text.judge.judge(group);
}

TEST(GroupJudgeTest, ABoundIsNoLessThanALaunchAndTheBytes) {
  TextGraph text(kChain);
  const GroupVerdict& all = judged(text, {0, 1, 2});
  ASSERT_TRUE(all.legal);
  EXPECT_FALSE(all.reduces);
  EXPECT_GT(all.least_us, kConstants.launch_us);
  const double apart =
      judged(text, {0}).least_us + judged(text, {1}).least_us + judged(text, {2}).least_us;
  EXPECT_LT(all.least_us, apart / 2.5) << "a third of the bytes and of the launches";
}

TEST(GroupJudgeTest, WhatNeedsAllRowsFirstIsRefused) {
  TextGraph text(kAllRowsFirst);
  const GroupVerdict& both = judged(text, text.nodes({"s", "y"}));
  EXPECT_FALSE(both.legal);
  EXPECT_TRUE(both.rejection.at.valid());
  EXPECT_TRUE(judged(text, text.nodes({"s"})).legal);
  EXPECT_TRUE(judged(text, text.nodes({"s"})).reduces);
}

/// Four functions of four tensors: two structures, as a constant is none.
TEST(GroupJudgeTest, EqualStructuresAreAnalysedOnce) {
  FusionBuilder b("four");
  for (const double factor : {2.0, 3.0, 5.0}) {
    const ValueId x = b.input(DType::kF32, {256, 1024});
    b.output(b.exp(b.mul(x, b.constant(factor))));
  }
  b.output(b.pointwise(PointwiseFn::kSin, {b.input(DType::kF32, {256, 1024})}));
  TextGraph text(b.build());
  std::vector<const GroupVerdict*> verdicts;
  for (NodeId node = 0; node < text.graph.size(); ++node)
    verdicts.push_back(&text.judge.judge(std::span(&node, 1)));
  const auto structures = std::set(verdicts.begin(), verdicts.end());
  EXPECT_EQ(text.judge.counts().analysed, static_cast<int64_t>(structures.size()));
  EXPECT_EQ(text.judge.counts().analysed + text.judge.counts().repeated,
            static_cast<int64_t>(text.graph.size()));
  EXPECT_LT(structures.size(), text.graph.size());
  const auto before = text.judge.counts().repeated;
  judged(text, {0});
  EXPECT_EQ(text.judge.counts().repeated, before) << "the group itself is known";
}

TEST(GroupJudgeTest, RefusalsLastUntilAllAreAllowed) {
  TextGraph text(kChain);
  const std::vector<NodeId> pair = {0, 1};
  const double least_us = judged(text, pair).least_us;
  text.judge.refuse(pair, {.subject = "test", .rule = "not this one"});
  EXPECT_FALSE(judged(text, pair).legal);
  EXPECT_EQ(judged(text, pair).rejection.rule, "not this one");
  EXPECT_TRUE(judged(text, {1, 2}).legal);
  text.judge.allow_all();
  EXPECT_TRUE(judged(text, pair).legal);
  EXPECT_EQ(judged(text, pair).rejection, Rejection{});
  EXPECT_EQ(judged(text, pair).least_us, least_us);
}

/// The sum of so many tensors, in pairs.
Fusion sum_of(int64_t tensors) {
  FusionBuilder b("sum");
  ValueId sum = b.input(DType::kF32, {256, 1024});
  for (int64_t i = 1; i < tensors; ++i) sum = b.add(sum, b.input(DType::kF32, {256, 1024}));
  b.output(sum);
  return b.build();
}

/// The inputs and the output are arguments.
TEST(GroupJudgeTest, AKernelHasSoManyTensors) {
  for (const int64_t more : {0, 1}) {
    TextGraph text(sum_of(kMostArgumentTensors - 1 + more));
    std::vector<NodeId> all(text.graph.size());
    std::iota(all.begin(), all.end(), NodeId{0});
    EXPECT_EQ(text.judge.may_fit(all), more == 0);
    EXPECT_EQ(text.judge.judge(all).legal, more == 0);
    // The graph of a group that exceeds the limit is not made.
    EXPECT_EQ(text.judge.counts().analysed, more == 0 ? 1 : 0);
  }
}

TEST(GroupJudgeTest, KeepsTheFactsOfTheLastTwoGroups) {
  TextGraph text(kChain);
  const std::vector<std::vector<NodeId>> groups = {{0}, {1}, {0, 1}};
  for (const std::vector<NodeId>& group : groups) ASSERT_TRUE(text.judge.judge(group).legal);
  EXPECT_FALSE(text.judge.take_facts(groups[0]));
  for (const size_t recent : {1U, 2U}) {
    const std::vector<NodeId>& group = groups[recent];
    const auto facts = text.judge.take_facts(group);
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->fusion, text.graph.extract_graph(group, text.judge.judge(group).views));
    EXPECT_FALSE(text.judge.take_facts(group)) << "taken before";
  }
}

TEST(GroupJudgeTest, PinsForbidGroupsWithTheValueTheyCutAt) {
  TextGraph text(kChain);
  const SegmentPins pins = SegmentPins::resolve(text.graph, {.cuts = {{"a"}}}).value();
  GroupJudge judge(text.graph, kLimits, text.families, &pins);
  const std::vector<NodeId> cut = {0, 1};
  const std::vector<NodeId> whole = {1, 2};
  EXPECT_FALSE(judge.judge(cut).legal);
  EXPECT_EQ(judge.judge(cut).rejection.rule, kPinnedCutRule);
  EXPECT_TRUE(judge.judge(whole).legal);
}

/// At least one for each op but inputs.
TEST(GroupJudgeTest, InstructionsCountEveryOp) {
  const double chain = instructions_of(parsed_fusion(kChain));
  EXPECT_GE(chain, 3.0);
  const double longer = instructions_of(parsed_fusion(kDiamond));
  EXPECT_GT(longer, chain);
}

}  // namespace sinter::group_judge_test
