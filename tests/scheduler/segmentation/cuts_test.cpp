// Every value that passes between two groups has a cut, with its bytes and the reason why no kernel
// runs both.

#include "scheduler/segmentation/cuts.h"

#include <gmock/gmock.h>

#include "tests/scheduler/segmentation/text_graph.h"

namespace sinter::cuts_test {

using testing::IsEmpty;
using testing::SizeIs;
using Rule = Cut::Rule;

/// The cuts between groups, each of which leads with the kernel of its number.
std::vector<Cut> cuts_between(TextGraph& text, Partition groups, const SegmentPins& pins = {}) {
  PlacedGroups placed{.groups = std::move(groups), .first_segment = {}};
  for (uint32_t i = 0; i < placed.groups.size(); ++i) placed.first_segment.push_back(KernelId{i});
  return find_cuts(text.graph, text.judge, text.schedules, placed, pins, true);
}

TEST(CutsTest, OneGroupHasNone) {
  TextGraph text(kChain);
  EXPECT_THAT(cuts_between(text, {{0, 1, 2}}), IsEmpty());
}

TEST(CutsTest, ACutNamesTheValueItsReaderAndItsBytes) {
  TextGraph text(kChain);
  const std::vector<Cut> cuts = cuts_between(text, {{0}, {1, 2}});
  ASSERT_THAT(cuts, SizeIs(1));
  EXPECT_EQ(cuts[0].value, named_value(text.fusion, "a"));
  EXPECT_EQ(cuts[0].consumer, text.fusion.values[named_value(text.fusion, "b")].def);
  EXPECT_EQ(cuts[0].from, KernelId{0});
  EXPECT_EQ(cuts[0].to, KernelId{1});
  EXPECT_EQ(cuts[0].bytes, int64_t{4096} * 4096 * 4);
  EXPECT_EQ(cuts[0].rule, Rule::kNotFound) << "one kernel would be faster";
  EXPECT_LT(cuts[0].together_us, cuts[0].apart_us);
}

/// d cannot join a while b and c, which read a and feed d, run elsewhere.
TEST(CutsTest, AThirdGroupBetweenTwoIsACycle) {
  TextGraph text(kDiamond);
  const Partition groups = {text.nodes({"a"}), text.nodes({"b", "c"}), text.nodes({"d"})};
  int cycles = 0;
  for (const Cut& cut : cuts_between(text, groups)) {
    const bool skips = cut.from == KernelId{0} && cut.to == KernelId{2};
    EXPECT_EQ(cut.rule == Rule::kCycle, skips);
    cycles += skips ? 1 : 0;
  }
  EXPECT_EQ(cycles, 1);
}

TEST(CutsTest, WhatNoKernelRunsIsRefusedWithTheReason) {
  TextGraph text(kAllRowsFirst);
  const std::vector<Cut> cuts = cuts_between(text, {text.nodes({"s"}), text.nodes({"y"})});
  ASSERT_THAT(cuts, SizeIs(1));
  EXPECT_EQ(cuts[0].rule, Rule::kRefused);
  EXPECT_NE(cuts[0].why.rule, "");
  EXPECT_EQ(cuts[0].bytes, 4096 * 4);
}

TEST(CutsTest, APinnedValueIsCutWhateverIsFaster) {
  TextGraph text(kChain);
  const SegmentPins pins = SegmentPins::resolve(text.graph, {.cuts = {{"a"}}}).value();
  const std::vector<Cut> cuts = cuts_between(text, {{0}, {1, 2}}, pins);
  ASSERT_THAT(cuts, SizeIs(1));
  EXPECT_EQ(cuts[0].rule, Rule::kPinned);
}

TEST(CutsTest, ValuesOfCallsAreNotCut) {
  TextGraph text(kCalled);
  EXPECT_THAT(cuts_between(text, {{0}, {1}, {2}}), IsEmpty());
}

}  // namespace sinter::cuts_test
