// What combining partial results costs: their bytes, and by the last block its passes.

#include "scheduler/cost/last_block_time.h"

#include <gtest/gtest.h>

#include "scheduler/schedule/last_block.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::last_block_time_test {

SegmentFacts column_sums(int64_t columns) {
  return facts_of(fmt::format(R"(fusion @sums {{
  %v0 x : f32[4096, {0}] = input
  %v1 s : f32[{0}] = reduce.sum %v0 over(0)
  return %v1
}})",
                              columns));
}

Schedule schedule_of(Finish finish) {
  return {.family = "column",
          .parameters = ColumnParameters{},
          .threads_per_row = 8,
          .rows_per_block = 16,
          .vector_width = 4,
          .persistent_blocks = 16,
          .finish = finish};
}

/// A row of partial results for each of the 16 blocks of a strip, in f32.
TEST(LastBlockTimeTest, PartialResultsAreWritten) {
  WorkEstimate work;
  work.bytes_written = 100;
  add_finish(column_sums(512), schedule_of(Finish::kKernel), kLimits, work);
  EXPECT_EQ(work.partial_bytes, 16 * 512 * 4);
  EXPECT_EQ(work.bytes_written, 100 + 16 * 512 * 4);
  EXPECT_EQ(work.last_block_us, 0) << "a kernel of its own combines them";
}

TEST(LastBlockTimeTest, OnlyALastBlockTakesTimeInTheKernel) {
  const SegmentFacts facts = column_sums(512);
  const Schedule schedule = schedule_of(Finish::kLastBlock);
  WorkEstimate work;
  add_finish(facts, schedule, kLimits, work);
  EXPECT_EQ(work.last_block_us, last_block_time(facts, schedule, kLimits));
  EXPECT_GT(work.last_block_us, kConstants.last_block_ns / 1000.0);
}

/// The constant of every last block is added once. An exchange is waited for log2(slots) times in
/// each round.
TEST(LastBlockTimeTest, ConstantsCountAsOftenAsTheyOccur) {
  const SegmentFacts facts = column_sums(512);
  const Schedule schedule = schedule_of(Finish::kLastBlock);
  const LastBlockGeometry geometry = last_block_geometry(facts, schedule);
  const double before = last_block_time(facts, schedule, kLimits);
  CostConstants constants = kConstants;
  constants.last_block_ns += 1000.0;
  EXPECT_NEAR(last_block_time(facts, schedule, with(kLimits, constants)), before + 1.0, 1e-9);
  constants = kConstants;
  constants.row.block_exchange_ns += 1000.0;
  EXPECT_NEAR(last_block_time(facts, schedule, with(kLimits, constants)),
              before + static_cast<double>(geometry.rounds()) *
                           std::log2(static_cast<double>(geometry.slots)),
              1e-9);
}

TEST(LastBlockTimeTest, MoreRowsOfPartialResultsTakeNoLess) {
  const SegmentFacts facts = column_sums(512);
  Schedule schedule = schedule_of(Finish::kLastBlock);
  double before = 0.0;
  for (const int64_t blocks : {2, 16, 128, 1024}) {
    schedule.persistent_blocks = blocks;
    const double time = last_block_time(facts, schedule, kLimits);
    EXPECT_GE(time, before) << blocks;
    before = time;
  }
}

}  // namespace sinter::last_block_time_test
