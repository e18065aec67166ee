// Which axes of a fusion become loops: the rows first, then the columns, each from the outermost to
// the innermost in memory.

#include "scheduler/analysis/loop_choice.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"

namespace sinter::loop_choice_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// The loops by size. Axes of a test's text have different sizes.
struct Loops {
  std::vector<int64_t> rows;
  std::vector<int64_t> columns;
  bool inner = false;
  std::set<ValueId> outer{};
};

tl::expected<Loops, Rejection> loops_of(std::string_view text) {
  const Fusion fusion = parsed_fusion(text);
  const LinkedAxes linked = link_axes(fusion).value();
  const TensorViews views = find_views(fusion, linked).value();
  const auto choice = choose_loops(fusion, linked, views);
  if (!choice) return tl::make_unexpected(choice.error());
  Loops loops{.rows = {}, .columns = {}, .inner = choice->inner, .outer = choice->outer};
  for (size_t i = 0; i < choice->nodes.size(); ++i) {
    (i < choice->rows ? loops.rows : loops.columns)
        .push_back(linked.classes.size(choice->nodes[i]));
  }
  return loops;
}

std::string rule_against(std::string_view text) {
  const auto loops = loops_of(text);
  return loops ? "" : loops.error().rule;
}

TEST(LoopChoiceTest, WithoutReductionsAllLoopsAreColumns) {
  const Loops loops = *loops_of(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 y : f32[4, 8] = exp %v0
  return %v1
})");
  EXPECT_THAT(loops.rows, IsEmpty());
  EXPECT_THAT(loops.columns, ElementsAre(4, 8));
  EXPECT_FALSE(loops.inner);
}

TEST(LoopChoiceTest, WithoutReductionsTheFirstOutputGivesTheOrder) {
  const Loops loops = *loops_of(R"(fusion @f {
  %v0 x : f32[4, 8, 2] = input
  %v1 y : f32[2, 4, 8] = permute %v0 order(2, 0, 1)
  return %v1
})");
  EXPECT_THAT(loops.columns, ElementsAre(2, 4, 8));
}

TEST(LoopChoiceTest, AReductionOfTheInnermostAxisMakesItTheColumns) {
  const Loops loops = *loops_of(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 s : f32[4] = reduce.sum %v0 over(1)
  return %v1
})");
  EXPECT_THAT(loops.rows, ElementsAre(4));
  EXPECT_THAT(loops.columns, ElementsAre(8));
  EXPECT_TRUE(loops.inner);
  EXPECT_THAT(loops.outer, IsEmpty());
}

/// The input's strides decide, not the order of its axes.
TEST(LoopChoiceTest, TheInnermostAxisIsTheNearestInMemory) {
  const Loops loops = *loops_of(R"(fusion @f {
  %v0 x : f32[4, 8] = input strides(1, 4)
  %v1 s : f32[4] = reduce.sum %v0 over(1)
  return %v1
})");
  EXPECT_THAT(loops.rows, ElementsAre(8));
  EXPECT_THAT(loops.columns, ElementsAre(4));
  EXPECT_FALSE(loops.inner);
  EXPECT_THAT(loops.outer, ElementsAre(ValueId{1}));
}

TEST(LoopChoiceTest, ATotalBesideAnInnerReductionIsAnOuterOne) {
  const Loops loops = *loops_of(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 s : f32[4] = reduce.sum %v0 over(1)
  %v2 c : f32[8] = reduce.sum %v0 over(0)
  %v3 t : f32 = reduce.sum %v0 over(0, 1)
  return %v1, %v2, %v3
})");
  EXPECT_THAT(loops.rows, ElementsAre(4));
  EXPECT_TRUE(loops.inner);
  EXPECT_THAT(loops.outer, UnorderedElementsAre(ValueId{2}, ValueId{3}));
}

TEST(LoopChoiceTest, ATotalAloneIsOneRow) {
  const Loops loops = *loops_of(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 t : f32 = reduce.sum %v0 over(0, 1)
  return %v1
})");
  EXPECT_THAT(loops.rows, IsEmpty());
  EXPECT_THAT(loops.columns, ElementsAre(4, 8));
  EXPECT_TRUE(loops.inner);
}

/// An axis of one element is no loop: what removes it removes nothing.
TEST(LoopChoiceTest, AxesOfOneElementAreNoLoops) {
  const Loops rows = *loops_of(R"(fusion @f {
  %v0 x : f32[4, 1] = input
  %v1 s : f32[4] = reduce.sum %v0 over(1)
  return %v1
})");
  EXPECT_THAT(rows.rows, ElementsAre(4));
  EXPECT_THAT(rows.columns, IsEmpty());
  EXPECT_TRUE(rows.inner);
  const Loops element = *loops_of(R"(fusion @f {
  %v0 x : f32[1] = input
  %v1 s : f32 = reduce.sum %v0 over(0)
  return %v1
})");
  EXPECT_THAT(element.rows, IsEmpty());
  EXPECT_THAT(element.columns, IsEmpty());
  EXPECT_TRUE(element.inner);
}

TEST(LoopChoiceTest, RefusesReductionsOverPartsOfTheRowsOrColumns) {
  EXPECT_EQ(rule_against(R"(fusion @f {
  %v0 x : f32[4, 8, 16] = input
  %v1 a : f32[4, 8] = reduce.sum %v0 over(2)
  %v2 b : f32[4] = reduce.sum %v0 over(1, 2)
  return %v1, %v2
})"),
            "reductions %v1 and %v2 remove different axes");
  EXPECT_EQ(rule_against(R"(fusion @f {
  %v0 x : f32[4, 8, 16] = input
  %v1 a : f32[4, 8] = reduce.sum %v0 over(2)
  %v2 b : f32[8, 16] = reduce.sum %v0 over(0)
  return %v1, %v2
})"),
            "reduction %v2 removes neither all rows nor all columns");
  EXPECT_EQ(rule_against(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 a : f32[8] = reduce.sum %v0 over(0)
  %v2 : f32[4, 8, 16] = broadcast %v0 axes(0, 1)
  %v3 b : f32[4, 8, 16] = exp %v2
  return %v1, %v3
})"),
            "reduction %v1 over the rows keeps only some of the columns");
}

/// Element (1, 0) of 4 x 8 has the number 8; in the transpose it is element (0, 1), number 1.
TEST(LoopChoiceTest, RefusesIndicesInTwoOrders) {
  EXPECT_EQ(rule_against(R"(fusion @f {
  %v0 x : f32[4, 8] = input
  %v1 : f32[32] = reshape %v0
  %v2 a : i64 = reduce.argmax %v1 over(0)
  %v3 : f32[8, 4] = permute %v0 order(1, 0)
  %v4 : f32[32] = reshape %v3
  %v5 b : i64 = reduce.argmax %v4 over(0)
  return %v2, %v5
})"),
            "index reduction %v2 numbers elements in another order than they are walked in");
}

}  // namespace sinter::loop_choice_test
