// Warp-specialised schedules: a pipeline of rows, consumer groups that take them in turn, and
// column reductions that they accumulate.

#include "scheduler/families/warp_specialised.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::warp_specialised_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const SegmentFacts& gradient() {
  static const SegmentFacts kFacts = canned_facts("layer_norm_backward", 8192, 4096);
  return kFacts;
}

std::vector<std::string> reasons(std::string_view fields, const DeviceLimits& limits = kLimits) {
  Schedule schedule =
      parsed_schedule(fmt::format("schedule warp_specialised {{ vector_width 8 {} }}", fields));
  for (const ValueId value : gradient().kept) schedule.kept.push_back({value, Residency::kReload});
  return reasons_against(schedule, gradient(), limits);
}

TEST(WarpSpecialisedTest, EveryGroupHasAsManyStages) {
  EXPECT_THAT(
      reasons("threads_per_row 256 rows_per_block 2 pipeline_stages 4 persistent_blocks 132"),
      IsEmpty());
  for (const char* stages : {"0", "1", "3", "18"}) {
    EXPECT_THAT(reasons(fmt::format("threads_per_row 256 rows_per_block 2 pipeline_stages {} "
                                    "persistent_blocks 132",
                                    stages)),
                Contains(HasSubstr("a multiple of the groups as stages, two at least")))
        << stages;
  }
}

TEST(WarpSpecialisedTest, GroupsAreWholeWarpGroups) {
  EXPECT_THAT(
      reasons("threads_per_row 64 rows_per_block 1 pipeline_stages 2 persistent_blocks 132"),
      Contains(HasSubstr("whole groups of four warps")));
  EXPECT_THAT(
      reasons("threads_per_row 128 rows_per_block 5 pipeline_stages 5 persistent_blocks 132"),
      Contains(HasSubstr("value 5, limit 4 groups")));
}

TEST(WarpSpecialisedTest, IterationsHaveOneTwoOrFourRows) {
  const auto of = [](int rows, int stages) {
    return reasons(
        fmt::format("threads_per_row 256 rows_per_block 1 pipeline_stages {} "
                    "rows_per_iteration {} persistent_blocks 132",
                    stages, rows));
  };
  EXPECT_THAT(of(3, 6), Contains(HasSubstr("1, 2 or 4 rows per iteration")));
  EXPECT_THAT(of(4, 6), Contains(HasSubstr("value 2, limit 0 stages left over")));
}

TEST(WarpSpecialisedTest, TheGridWalksRows) {
  EXPECT_THAT(reasons("threads_per_row 256 rows_per_block 1 pipeline_stages 2"),
              Contains(HasSubstr("over the rows of a block, which walks none")));
}

TEST(WarpSpecialisedTest, NeedsBulkCopiesAndColumnReductions) {
  const DeviceLimits a100 = *find_device("A100");
  const auto first_rule = [](const SegmentFacts& facts, const DeviceLimits& limits) {
    const Proposal proposal = propose_warp_specialised(facts, limits);
    EXPECT_THAT(proposal.candidates, IsEmpty());
    return proposal.rejections.empty() ? "" : proposal.rejections.front().rule;
  };
  EXPECT_EQ(first_rule(gradient(), a100), "the device has no bulk copies to shared memory");
  EXPECT_EQ(first_rule(canned_facts("rms_norm", 8192, 4096), kLimits),
            "without outer reductions a block has nothing to keep from row to row");
  EXPECT_EQ(first_rule(canned_facts("layer_norm_backward", 8192, 4095), kLimits),
            "a bulk copy takes contiguous rows of whole, aligned 16 bytes");
}

TEST(WarpSpecialisedTest, OffersAreLegal) {
  const Proposal proposal = propose_warp_specialised(gradient(), kLimits);
  ASSERT_FALSE(proposal.candidates.empty());
  for (const ProposedSchedule& candidate : proposal.candidates) {
    EXPECT_THAT(reasons_against(candidate.schedule, gradient(), kLimits), IsEmpty());
    EXPECT_LE(candidate.schedule.persistent_blocks,
              candidate.schedule.min_blocks_per_sm * kLimits.sm_count);
    EXPECT_LE(candidate.estimate.shared_bytes, kLimits.shared_bytes_per_block);
  }
}

}  // namespace sinter::warp_specialised_test
