// The L2 eviction priority of reads follows from how much is written, and from whether rows are
// read again.

#include "scheduler/cost/read_priority.h"

#include <gtest/gtest.h>

#include <cmath>

#include "scheduler/cost/cost_model.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::read_priority_test {

TEST(ReadPriorityTest, TrafficThatFitsIntoL2IsNormal) {
  EXPECT_EQ(read_priority(canned_facts("copy", 64, 1024), kLimits), ReadPriority::kNormal);
}

TEST(ReadPriorityTest, LeaveL2LastWhereItHasNoRoomForAsManyWrites) {
  DeviceLimits limits = kLimits;
  const SegmentFacts facts = canned_facts("copy", 64, 1024);
  const double room = static_cast<double>(facts.bytes_read + facts.bytes_written);
  limits.l2_bytes = static_cast<int64_t>(std::ceil(room / kConstants.l2_room_share));
  EXPECT_EQ(read_priority(facts, limits), ReadPriority::kNormal) << "the next kernel finds them";
  limits.l2_bytes -= 1;
  EXPECT_EQ(read_priority(facts, limits), ReadPriority::kEvictLast);
  EXPECT_EQ(read_priority(facts, limits, true), ReadPriority::kLastUse);
}

TEST(ReadPriorityTest, OfAReductionLeaveL2FirstUnlessTheyAreManyOrComeAgain) {
  const auto facts = [](int64_t rows) { return canned_facts("bias_gradient", rows, 4096); };
  EXPECT_EQ(read_priority(facts(4096), kLimits), ReadPriority::kEvictFirst) << "32 MB, within L2";
  EXPECT_EQ(read_priority(facts(4096), kLimits, true), ReadPriority::kNormal)
      << "a few bytes written are no reason to leave lines behind";
  EXPECT_EQ(read_priority(facts(512), kLimits), ReadPriority::kNormal)
      << "too little to push much out";
  EXPECT_EQ(read_priority(facts(8192), kLimits), ReadPriority::kEvictFirst);
  EXPECT_EQ(read_priority(facts(36864), kLimits), ReadPriority::kEvictFirst) << "302 MB";
  EXPECT_EQ(read_priority(facts(65536), kLimits, true), ReadPriority::kNormal);
  EXPECT_EQ(read_priority(facts(65536), kLimits), ReadPriority::kNormal)
      << "537 MB; leaving last would only push out what was written before";
}

/// Whatever is chosen has the shortest time of those that may be chosen.
TEST(ReadPriorityTest, TheChoiceIsHardlySlowerThanAnyOther) {
  for (const char* fusion : {"copy", "row_sum", "rms_norm", "residual_add", "column_sum"}) {
    for (const int64_t rows : {64, 1024, 4096, 32768}) {
      const SegmentFacts facts = canned_facts(fusion, rows, 4096);
      const auto time = [&](ReadPriority priority) {
        return memory_time(kLimits, static_cast<double>(facts.bytes_read),
                           static_cast<double>(facts.bytes_written), priority);
      };
      const double chosen = time(read_priority(facts, kLimits));
      // Gains of less than half a percent do not count.
      for (const ReadPriority other :
           {ReadPriority::kNormal, ReadPriority::kEvictFirst, ReadPriority::kEvictLast})
        EXPECT_LE(chosen, time(other) / 0.995) << fusion << " " << rows;
    }
  }
}

}  // namespace sinter::read_priority_test
