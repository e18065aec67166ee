// Looped schedules: rows in chunks, with nothing resident, for any width.

#include "scheduler/families/looped.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::looped_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> reasons(std::string_view fields, const SegmentFacts& facts) {
  return reasons_against(parsed_schedule(fmt::format("schedule looped {{ {} }}", fields)), facts,
                         kLimits);
}

TEST(LoopedTest, KeepsNothingResident) {
  const SegmentFacts facts = canned_facts("rms_norm", 64, 4096);
  const std::string x = fmt::format("{}", named_value(facts.fusion, "x"));
  const auto keeping = [&](std::string_view residency) {
    return reasons(fmt::format("vector_width 8 keep {} in {}", x, residency), facts);
  };
  EXPECT_THAT(keeping("reload"), IsEmpty());
  EXPECT_THAT(keeping("register"), Contains(HasSubstr("keeps nothing resident")));
  EXPECT_THAT(keeping("shared"), Contains(HasSubstr("keeps nothing resident")));
}

TEST(LoopedTest, AChunkHasAtMost16Batches) {
  const SegmentFacts facts = canned_facts("rms_norm", 64, 65536);
  EXPECT_THAT(reasons("vector_width 1 unroll 16", facts), IsEmpty());
  EXPECT_THAT(reasons("vector_width 1 unroll 17", facts), Contains(HasSubstr("limit 16 batches")));
}

TEST(LoopedTest, OnlyReductionsOverTheRowsTakeTiles) {
  const SegmentFacts norm = canned_facts("rms_norm", 64, 4096);
  EXPECT_THAT(reasons("vector_width 8 rows_per_tile 4 persistent_blocks 64", norm),
              Contains(HasSubstr("only reductions over the rows")));
  const SegmentFacts gradient = canned_facts("layer_norm_backward", 8192, 4096);
  EXPECT_THAT(
      reasons("threads_per_row 256 vector_width 8 rows_per_tile 4 persistent_blocks 132", gradient),
      IsEmpty());
}

/// Of a row in chunks a thread needs no more registers, however wide it is.
TEST(LoopedTest, RegistersDoNotGrowWithTheRow) {
  const auto registers = [](int64_t columns) {
    const Schedule schedule =
        parsed_schedule("schedule looped { threads_per_row 128 vector_width 8 unroll 2 }");
    return estimate_looped(canned_facts("rms_norm", 64, columns), schedule, kLimits)->registers;
  };
  EXPECT_EQ(registers(1 << 20), registers(1 << 16));
}

TEST(LoopedTest, OffersAreLegalForRowsOfAnyWidth) {
  for (const int64_t columns : {1, 2, 33, 4096, 1 << 20}) {
    const SegmentFacts facts = canned_facts("row_sum", 64, columns);
    const Proposal proposal = propose_looped(facts, kLimits);
    EXPECT_FALSE(proposal.candidates.empty()) << columns;
    for (const ProposedSchedule& candidate : proposal.candidates) {
      EXPECT_THAT(reasons_against(candidate.schedule, facts, kLimits), IsEmpty()) << columns;
      EXPECT_TRUE(std::ranges::none_of(candidate.schedule.kept, [](const KeptValue& kept) {
        return kept.residency != Residency::kReload;
      }));
    }
  }
}

TEST(LoopedTest, RefusesSegmentsWithoutReductions) {
  const Proposal proposal = propose_looped(canned_facts("copy", 64, 1024), kLimits);
  EXPECT_THAT(proposal.candidates, IsEmpty());
  ASSERT_FALSE(proposal.rejections.empty());
  EXPECT_THAT(proposal.rejections.front().rule, HasSubstr("reduces nothing"));
}

}  // namespace sinter::looped_test
