// The rules of all families that walk rows: the ranges of their fields, what may be kept, and which
// segments they take. Each refusal has the number that broke the rule.

#include "scheduler/families/row_rules.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::row_rules_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// y = x times the sum of its row, times a weight of the columns.
SegmentFacts norm(int64_t columns = 1024) {
  return facts_of(fmt::format(R"(fusion @norm {{
  %v0 x : f32[64, {0}] = input
  %v1 w : bf16[{0}] = input
  %v2 : f32[64] = reduce.sum %v0 over(1)
  %v3 : f32[64, {0}] = broadcast %v2 axes(0)
  %v4 : f32[64, {0}] = mul %v0, %v3
  %v5 : f32[{0}] = cast %v1
  %v6 : f32[64, {0}] = broadcast %v5 axes(1)
  %v7 y : f32[64, {0}] = mul %v4, %v6
  return %v7
}})",
                              columns));
}

/// What is said about a schedule of 2 rows of 128 threads with vectors of 4, with fields of its
/// text changed.
std::string refusal(std::string_view changes, const SegmentFacts& facts = norm()) {
  std::string text =
      "schedule multi_wave { threads_per_row 128 rows_per_block 2 vector_width 4 unroll 1 }";
  std::istringstream words{std::string(changes)};
  for (std::string field, value; words >> field;) {
    if (field == "keep") break;
    words >> value;
    if (const size_t at = text.find(field); at != std::string::npos)
      text.erase(at, text.find(' ', text.find(' ', at) + 1) - at);
  }
  text.insert(text.size() - 1, fmt::format("{} ", changes));
  const auto rejection = check_row_schedule(facts, parsed_schedule(text), kLimits);
  return rejection ? text_of(*rejection) : "";
}

TEST(RowRulesTest, TheRangesOfFields) {
  EXPECT_EQ(refusal(""), "");
  EXPECT_THAT(refusal("threads_per_row 96"), HasSubstr("power of two"));
  EXPECT_THAT(refusal("threads_per_row 2048"), HasSubstr("value 2048, limit 1024 threads"));
  EXPECT_THAT(refusal("rows_per_block 16"), HasSubstr("value 16, limit 8 rows per block"));
  EXPECT_THAT(refusal("rows_per_block 0"), HasSubstr("value 0, limit 8 rows per block"));
  EXPECT_THAT(refusal("threads_per_row 8"), HasSubstr("value 16, limit 32 threads"));
  EXPECT_THAT(refusal("unroll 0"), HasSubstr("unroll must be positive"));
  EXPECT_THAT(refusal("min_blocks_per_sm 9"), HasSubstr("value 9, limit 8 blocks"));
  EXPECT_THAT(refusal("persistent_blocks -1"), HasSubstr("a grid of less than no blocks"));
}

TEST(RowRulesTest, ClustersShareRowsOfWholeVectors) {
  EXPECT_EQ(refusal("cluster_size 2"), "");
  EXPECT_THAT(refusal("cluster_size 2 threads_per_row 16 rows_per_block 4"),
              HasSubstr("value 16, limit 32 threads"));
  EXPECT_THAT(refusal("cluster_size 2", norm(1028)), HasSubstr("value 4, limit 0 elements left"));
  EXPECT_THAT(refusal("cluster_size 2 row_access scalar vector_width 1"),
              HasSubstr("whole vectors"));
}

TEST(RowRulesTest, OnlyBlocksThatWalkRowsPrefetch) {
  EXPECT_THAT(refusal("prefetch_rows 1 keep %v0 in register"), HasSubstr("no row comes after"));
  EXPECT_THAT(refusal("prefetch_rows 2 persistent_blocks 132 keep %v0 in register"),
              HasSubstr("value 2, limit 1 prefetched rows"));
  EXPECT_THAT(refusal("prefetch_rows 1 persistent_blocks 132 keep %v0 in shared"),
              HasSubstr("no input of the row is kept in registers"));
  EXPECT_EQ(refusal("prefetch_rows 1 persistent_blocks 132 keep %v0 in register"), "");
}

TEST(RowRulesTest, WhatIsKeptVariesAlongTheRow) {
  const SegmentFacts facts = norm();
  const auto keeping = [&](ValueId value, Residency residency = Residency::kRegister) {
    Schedule schedule =
        parsed_schedule("schedule multi_wave { threads_per_row 128 vector_width 4 }");
    schedule.kept = {{value, residency}};
    const auto rejection = check_row_schedule(facts, schedule, kLimits);
    return rejection ? text_of(*rejection) : "";
  };
  EXPECT_EQ(keeping(named_value(facts.fusion, "x")), "");
  EXPECT_EQ(keeping(named_value(facts.fusion, "w")), "") << "an input of the columns";
  for (const ValueId value : facts.fusion.value_ids()) {
    const bool reduced = is_reduction(facts.fusion.def_of(value).kind);
    if (reduced) {
      EXPECT_THAT(keeping(value), HasSubstr("does not vary along the row"));
    }
  }
  EXPECT_THAT(keeping(ValueId{1000}), HasSubstr("does not vary along the row")) << "no value";
  EXPECT_THAT(keeping(named_value(facts.fusion, "y"), Residency::kReload),
              HasSubstr("only inputs can be read again"));
}

TEST(RowRulesTest, UnrollIsWithinWhatAFamilyUnrolls) {
  const SegmentFacts facts = norm();
  EXPECT_EQ(check_unroll(facts, {.family = "looped", .unroll = 16}, 16), std::nullopt);
  const auto more = check_unroll(facts, {.family = "looped", .unroll = 17}, 16);
  ASSERT_TRUE(more);
  EXPECT_THAT(text_of(*more), HasSubstr("value 17, limit 16 batches"));
}

std::vector<std::string> rules_against(std::string_view text) {
  std::vector<std::string> out;
  for (const Rejection& rejection : check_row_segment(facts_of(text), "looped"))
    out.push_back(rejection.rule);
  return out;
}

TEST(RowRulesTest, SegmentsReduceAlongTheContiguousAxis) {
  EXPECT_THAT(check_row_segment(norm(), "looped"), IsEmpty());
  EXPECT_THAT(rules_against(R"(fusion @f {
  %v0 x : f32[64, 1024] = input
  %v1 y : f32[64, 1024] = exp %v0
  return %v1
})"),
              ElementsAre("the segment reduces nothing, so no row has to be held together"));
}

/// A welford over the rows has a tuple of three, which is no single value to leave behind.
TEST(RowRulesTest, TuplesLeaveNoPartialResults) {
  const SegmentFacts tuples = facts_of(R"(fusion @f {
  %v0 x : f32[64, 1024] = input
  %v1 mean, %v2 m2 : f32[1024], f32[1024] = welford %v0 over(0)
  return %v1, %v2
})");
  const auto rejection = check_outer_reductions(tuples, "multi_wave");
  ASSERT_TRUE(rejection);
  EXPECT_THAT(rejection->rule, HasSubstr("single values, not tuples"));
  EXPECT_EQ(check_outer_reductions(canned_facts("layer_norm_backward", 64, 1024), "multi_wave"),
            std::nullopt);
  EXPECT_EQ(check_outer_reductions(norm(), "multi_wave"), std::nullopt) << "there are none";
}

/// 16 bytes are 8 bf16 or 4 f32.
TEST(RowRulesTest, VectorsHaveSixteenBytesOfTheNarrowestOrTheWidest) {
  const VectorWidths same = vector_widths(canned_facts("row_sum_f32", 64, 1024));
  EXPECT_EQ(same.widest, 4);
  EXPECT_EQ(same.narrowest, 4);
  const SegmentFacts mixed = facts_of(R"(fusion @f {
  %v0 x : bf16[64, 1024] = input
  %v1 : f32[64, 1024] = cast %v0
  %v2 : f32[64] = reduce.sum %v1 over(1)
  %v3 : f32[64, 1024] = broadcast %v2 axes(0)
  %v4 y : f32[64, 1024] = mul %v1, %v3
  return %v4
})");
  EXPECT_EQ(vector_widths(mixed).widest, 8);
  EXPECT_EQ(vector_widths(mixed).narrowest, 4);
  std::vector<int64_t> offered;
  for (const RowVector& vector : row_vectors(mixed)) offered.push_back(vector.width);
  EXPECT_THAT(offered, ElementsAre(8, 4)) << "the widest first";
}

}  // namespace sinter::row_rules_test
