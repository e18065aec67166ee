// Pointwise schedules: blocks of threads x vector x unroll elements, one for every tile.

#include "scheduler/families/pointwise.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::pointwise_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SegmentFacts function_of(int64_t elements) {
  return facts_of(fmt::format(R"(fusion @f {{
  %v0 x : f32[{0}] = input
  %v1 y : f32[{0}] = exp %v0
  return %v1
}})",
                              elements));
}

std::vector<std::string> reasons(std::string_view fields, int64_t elements = 1 << 20) {
  return reasons_against(parsed_schedule(fmt::format("schedule pointwise {{ {} }}", fields)),
                         function_of(elements), kLimits);
}

TEST(PointwiseTest, ABlockForEveryTile) {
  const auto blocks = [](int64_t elements) {
    const Schedule schedule =
        parsed_schedule("schedule pointwise { threads_per_row 128 vector_width 4 unroll 2 }");
    return estimate_pointwise(function_of(elements), schedule, kLimits)->blocks;
  };
  EXPECT_EQ(blocks(1024), 1) << "128 threads, 4 elements, twice";
  EXPECT_EQ(blocks(1025), 2);
  EXPECT_EQ(blocks(1), 1);
  EXPECT_EQ(blocks(0), 0);
}

TEST(PointwiseTest, RefusesWhatItsBlocksDoNot) {
  EXPECT_THAT(reasons("threads_per_row 128 vector_width 4 unroll 8"), IsEmpty());
  EXPECT_THAT(reasons("threads_per_row 128 vector_width 4 unroll 9"),
              Contains(HasSubstr("value 9, limit 8 vectors")));
  EXPECT_THAT(reasons("rows_per_block 2"), Contains(HasSubstr("one row per block")));
  EXPECT_THAT(reasons("persistent_blocks 132"), Contains(HasSubstr("do not stay")));
  EXPECT_THAT(reasons("vector_width 3"), Contains(HasSubstr("not a power of two up to 16")));
  EXPECT_THAT(reasons("vector_width 4 row_access unaligned"),
              Contains(HasSubstr("vectors begin at the first element")));
}

/// The last vector of a run is predicated.
TEST(PointwiseTest, TheWidthNeedNotDivideTheElements) {
  EXPECT_THAT(reasons("vector_width 4", 1023), IsEmpty());
}

TEST(PointwiseTest, OffersAreLegalAndOfWholeAccesses) {
  const SegmentFacts facts = function_of(1 << 24);
  const Proposal proposal = propose_pointwise(facts, kLimits);
  ASSERT_FALSE(proposal.candidates.empty());
  for (const ProposedSchedule& candidate : proposal.candidates) {
    EXPECT_THAT(reasons_against(candidate.schedule, facts, kLimits), IsEmpty());
    EXPECT_LE(candidate.schedule.vector_width * 4, 16);
  }
}

TEST(PointwiseTest, ReductionsBelongToOthers) {
  const auto refusal = refuse_pointwise(canned_facts("rms_norm", 64, 1024));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->rule, "the segment reduces");
  EXPECT_EQ(refuse_pointwise(function_of(8)), std::nullopt);
  EXPECT_THAT(propose_pointwise(canned_facts("rms_norm", 64, 1024), kLimits).candidates, IsEmpty());
}

}  // namespace sinter::pointwise_test
