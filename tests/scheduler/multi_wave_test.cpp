// Multi-wave schedules: rows that stay in registers or shared memory from stage to stage.

#include "scheduler/families/multi_wave.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::multi_wave_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/// A schedule that keeps x.
std::vector<std::string> reasons(std::string_view fields, std::string_view residency,
                                 int64_t columns) {
  const SegmentFacts facts = canned_facts("rms_norm", 64, columns);
  Schedule schedule = parsed_schedule(fmt::format("schedule multi_wave {{ {} }}", fields));
  if (residency == "register")
    schedule.kept = {{named_value(facts.fusion, "x"), Residency::kRegister}};
  if (residency == "shared") schedule.kept = {{named_value(facts.fusion, "x"), Residency::kShared}};
  return reasons_against(schedule, facts, kLimits);
}

/// A thread of 32 has 512 of 16384 bf16, which are 256 registers.
TEST(MultiWaveTest, AShareOfARowFitsTheRegisters) {
  EXPECT_THAT(reasons("threads_per_row 128 vector_width 8", "register", 4096), IsEmpty());
  EXPECT_THAT(reasons("threads_per_row 32 vector_width 8", "register", 16384),
              Contains(HasSubstr("multi_wave")));
}

/// An H200 has 227 KiB for a block: 116,224 bf16.
TEST(MultiWaveTest, ARowFitsTheSharedMemory) {
  EXPECT_THAT(reasons("threads_per_row 1024 vector_width 8", "shared", 98304), IsEmpty());
  EXPECT_THAT(reasons("threads_per_row 1024 vector_width 8", "shared", 131072),
              Contains(HasSubstr("shared")));
}

TEST(MultiWaveTest, RegistersAreUnrolledUpTo32Batches) {
  EXPECT_THAT(reasons("threads_per_row 32 vector_width 1", "register", 1024), IsEmpty());
  EXPECT_THAT(reasons("threads_per_row 32 vector_width 1", "register", 1025 * 1),
              Contains(HasSubstr("too many batches to unroll")));
}

TEST(MultiWaveTest, WithoutASecondStageNothingIsResident) {
  const Proposal proposal = propose_multi_wave(canned_facts("row_sum", 64, 4096), kLimits);
  EXPECT_THAT(proposal.candidates, IsEmpty());
  ASSERT_FALSE(proposal.rejections.empty());
  EXPECT_THAT(proposal.rejections.front().rule, HasSubstr("no value crosses a row barrier"));
}

TEST(MultiWaveTest, OffersKeepTheRowAndAreLegal) {
  for (const int64_t columns : {2, 64, 1023, 8192, 65536}) {
    const SegmentFacts facts = canned_facts("rms_norm", 4096, columns);
    const Proposal proposal = propose_multi_wave(facts, kLimits);
    EXPECT_FALSE(proposal.candidates.empty()) << columns;
    for (const ProposedSchedule& candidate : proposal.candidates) {
      EXPECT_THAT(reasons_against(candidate.schedule, facts, kLimits), IsEmpty()) << columns;
      EXPECT_TRUE(is_kept(candidate.schedule, named_value(facts.fusion, "x"))) << columns;
    }
  }
}

/// Rows longer than registers and shared memory of a block, and of a cluster of 16, hold.
TEST(MultiWaveTest, LongerRowsAreRefusedWithTheReason) {
  const Proposal proposal =
      propose_multi_wave(canned_facts("rms_norm", 64, int64_t{1} << 24), kLimits);
  EXPECT_THAT(proposal.candidates, IsEmpty());
  ASSERT_FALSE(proposal.rejections.empty());
  EXPECT_GT(proposal.rejections.front().value, proposal.rejections.front().limit);
}

}  // namespace sinter::multi_wave_test
