#include "scheduler/analysis/subgraphs.h"

#include <gmock/gmock.h>

#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"

namespace sinter::subgraphs_test {

using testing::IsEmpty;
using testing::SizeIs;

SegmentFacts gradient_facts(const char* name) {
  return facts_of(find_canned_fusion(name)->build(), {{"rows", 48}, {"cols", 64}});
}

/// Names of a graph's inputs and outputs stand for values of the segment's graph with equal names.
void expect_names_kept(const Subgraph& part, const Fusion& segment) {
  for (const auto& [mine, in_plan] : part.in_plan) {
    const std::string& name = segment.values[in_plan].name;
    if (name.empty()) continue;
    EXPECT_THAT(part.fusion.values[mine].name, testing::StartsWith(name));
  }
}

TEST(SubgraphsTest, FinishingReadsARowOfPartialResultsForEveryBlock) {
  const SegmentFacts facts = gradient_facts("layer_norm_backward");
  const Subgraph finish = finish_of(facts, 5);
  EXPECT_THAT(verify(finish.fusion), IsEmpty()) << print(finish.fusion);
  ASSERT_THAT(finish.fusion.inputs, SizeIs(2));  // Of dweight and dbias.
  EXPECT_EQ(finish.fusion.values[finish.fusion.inputs[0]].shape, (Shape{Extent(5), Extent(64)}));
  EXPECT_THAT(finish.fusion.outputs, SizeIs(2));
  expect_names_kept(finish, facts.fusion);
}

TEST(SubgraphsTest, TotalsHaveOnePartialResultForEveryBlock) {
  for (const int64_t rows : {1, 5}) {
    const SegmentFacts facts = gradient_facts("dyt_backward");
    const Subgraph finish = finish_of(facts, rows);
    EXPECT_THAT(verify(finish.fusion), IsEmpty()) << print(finish.fusion);
    std::vector<Shape> shapes;
    for (const ValueId input : finish.fusion.inputs)
      shapes.push_back(finish.fusion.values[input].shape);
    EXPECT_THAT(shapes,
                testing::UnorderedElementsAre(Shape{Extent(rows)}, Shape{Extent(rows), Extent(64)},
                                              Shape{Extent(rows), Extent(64)}));
    EXPECT_EQ(facts_of(finish.fusion).space.columns, 64) << "all are finished by one kernel";
  }
}

TEST(SubgraphsTest, WhatHasNoElementsIsNotFinished) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("column_sum")->build(), {{"rows", 5}, {"cols", 0}});
  EXPECT_THAT(finish_of(facts, 3).fusion.outputs, IsEmpty());
}

TEST(SubgraphsTest, RowsAndColumnsTogetherGiveAllOutputs) {
  for (const char* name : {"layer_norm_backward", "layer_norm_backward_residual",
                           "rms_norm_backward", "softmax_backward_bias"}) {
    SCOPED_TRACE(name);
    const SegmentFacts facts = gradient_facts(name);
    const RowsAndColumns parts = split_rows_and_columns(facts);
    EXPECT_THAT(verify(parts.rows.fusion), IsEmpty()) << print(parts.rows.fusion);
    EXPECT_THAT(verify(parts.columns.fusion), IsEmpty()) << print(parts.columns.fusion);
    EXPECT_EQ(parts.rows.fusion.outputs.size() + parts.columns.fusion.outputs.size(),
              facts.fusion.outputs.size() + parts.passed.size());
    EXPECT_FALSE(facts_of(parts.rows.fusion).has_outer());
    EXPECT_FALSE(facts_of(parts.columns.fusion).has_reduction());
    expect_names_kept(parts.columns, facts.fusion);
  }
}

TEST(SubgraphsTest, WhatPassesHasAnElementForEachRow) {
  const SegmentFacts softmax = gradient_facts("softmax_backward_bias");
  const RowsAndColumns parts = split_rows_and_columns(softmax);
  ASSERT_THAT(parts.passed, SizeIs(1));
  EXPECT_EQ(softmax.fusion.values[parts.passed[0]].shape, Shape{Extent(48)});
  const SegmentFacts empty =
      facts_of(find_canned_fusion("softmax_backward_bias")->build(), {{"rows", 3}, {"cols", 0}});
  if (empty.has_outer()) {
    const RowsAndColumns of_nothing = split_rows_and_columns(empty);
    for (const ValueId value : of_nothing.passed)
      EXPECT_EQ(empty.fusion.values[value].shape, Shape{Extent(3)});
  }
  // The columns of a layer norm need only what the forward gave.
  EXPECT_THAT(split_rows_and_columns(gradient_facts("layer_norm_backward")).passed, IsEmpty());
}

}  // namespace sinter::subgraphs_test
