// Column schedules: strips of columns whose rows the slots of a block, the blocks of a cluster, or
// more blocks share.

#include "scheduler/families/column.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::column_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

SegmentFacts sums_of(int64_t rows, int64_t columns) {
  return facts_of(fmt::format(R"(fusion @sums {{
  %v0 x : f32[{0}, {1}] = input
  %v1 s : f32[{1}] = reduce.sum %v0 over(0)
  return %v1
}})",
                              rows, columns));
}

Schedule schedule_of(std::string_view fields) {
  return parsed_schedule(fmt::format("schedule column {{ {} }}", fields));
}

std::vector<std::string> reasons(std::string_view fields, int64_t columns = 1024) {
  return reasons_against(schedule_of(fields), sums_of(4096, columns), kLimits);
}

constexpr std::string_view kLegal = "threads_per_row 8 rows_per_block 16 vector_width 4 unroll 2";

TEST(ColumnTest, AStripIsOfABlockOrOfSeveral) {
  const auto blocks = [](std::string_view more, int64_t columns) {
    return estimate_column(sums_of(4096, columns), schedule_of(fmt::format("{} {}", kLegal, more)),
                           kLimits)
        ->blocks;
  };
  EXPECT_EQ(blocks("", 1024), 1024 / 32);
  EXPECT_EQ(blocks("", 1028), 1024 / 32 + 1);
  EXPECT_EQ(blocks("cluster_size 4", 1024), 4 * 1024 / 32);
  EXPECT_EQ(blocks("persistent_blocks 16", 1024), 16 * 1024 / 32);
}

/// Tuples of all slots but the first: 15 x 8 threads with 4 floats each.
TEST(ColumnTest, SlotsExchangeThroughSharedMemory) {
  EXPECT_EQ(estimate_column(sums_of(4096, 1024), schedule_of(kLegal), kLimits)->shared_bytes,
            15 * 8 * 4 * 4);
}

TEST(ColumnTest, RefusesFieldsOutOfRange) {
  EXPECT_THAT(reasons(kLegal), IsEmpty());
  EXPECT_THAT(reasons("threads_per_row 8 rows_per_block 12 vector_width 4"),
              Contains(HasSubstr("a power of two of row slots")));
  EXPECT_THAT(reasons("threads_per_row 8 rows_per_block 2 vector_width 4"),
              Contains(HasSubstr("whole warps")));
  EXPECT_THAT(reasons(kLegal, 1022), Contains(HasSubstr("value 1022, limit 4 columns")));
  EXPECT_THAT(reasons("threads_per_row 8 rows_per_block 16 vector_width 4 unroll 9"),
              Contains(HasSubstr("value 9, limit 8 rows")));
  EXPECT_THAT(reasons("threads_per_row 8 rows_per_block 16 persistent_blocks 1025"),
              Contains(HasSubstr("value 1025, limit 1024 blocks")));
  EXPECT_THAT(reasons("threads_per_row 8 rows_per_block 16 keep %v0 in register"),
              Contains(HasSubstr("column schedules keep nothing")));
}

TEST(ColumnTest, TakesReductionsOverTheRowsAlone) {
  EXPECT_EQ(refuse_column(sums_of(64, 1024)), std::nullopt);
  EXPECT_EQ(refuse_column(canned_facts("copy", 64, 1024))->rule,
            "the segment reduces nothing over its rows");
  EXPECT_EQ(refuse_column(canned_facts("layer_norm_backward", 64, 1024))->rule,
            "the segment also reduces along the columns");
}

/// The welford of a column is a tuple, which one block reduces whole, but several cannot leave.
TEST(ColumnTest, TuplesAreReducedByOneBlock) {
  const SegmentFacts tuples = facts_of(R"(fusion @f {
  %v0 x : f32[64, 1024] = input
  %v1 mean, %v2 m2 : f32[1024], f32[1024] = welford %v0 over(0)
  return %v1, %v2
})");
  EXPECT_EQ(refuse_column(tuples), std::nullopt);
  EXPECT_THAT(reasons_against(schedule_of(kLegal), tuples, kLimits), IsEmpty());
  EXPECT_THAT(
      reasons_against(schedule_of(fmt::format("{} persistent_blocks 4", kLegal)), tuples, kLimits),
      Contains(HasSubstr("single values, not tuples")));
}

TEST(ColumnTest, OffersAreLegalEvenOfTwoRowsOrColumns) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{2, 1024}, {4096, 2}, {65536, 64}, {17, 1023}}) {
    const SegmentFacts facts = sums_of(rows, columns);
    const Proposal proposal = propose_column(facts, kLimits);
    EXPECT_FALSE(proposal.candidates.empty()) << rows << " x " << columns;
    for (const ProposedSchedule& candidate : proposal.candidates)
      EXPECT_THAT(reasons_against(candidate.schedule, facts, kLimits), IsEmpty());
  }
}

}  // namespace sinter::column_test
