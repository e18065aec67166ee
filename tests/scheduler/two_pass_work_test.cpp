// What a two-pass schedule reads, writes and waits for, by the rows of its tiles.

#include "scheduler/cost/two_pass_work.h"

#include <gmock/gmock.h>

#include "scheduler/families/looped.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::two_pass_work_test {

using testing::ElementsAre;

const Schedule kLegal = parsed_schedule(R"(schedule looped {
  threads_per_row 256  rows_per_block 1  vector_width 8  unroll 1  min_blocks_per_sm 2
  persistent_blocks 256  rows_per_tile 10
})");

const SegmentFacts& facts() {
  static const SegmentFacts kFacts = canned_facts("layer_norm_backward", 8192, 32768);
  return kFacts;
}

/// Work of the legal schedule with so many rows a tile.
WorkEstimate work_of(const SegmentFacts& of, int64_t rows,
                     const CostConstants& constants = kConstants) {
  Schedule schedule = kLegal;
  std::get<LoopedParameters>(schedule.parameters).rows_per_tile = rows;
  const ResourceEstimate estimate = estimate_looped(of, schedule, kLimits).value();
  return estimate_two_pass_work(of, schedule, distribute_two_pass(of), estimate,
                                with(kLimits, constants));
}

// 256 blocks with rows of 128 KiB: half of the L2 holds less than one each. Of rows of 8 KiB it
// holds thirteen, beside the accumulators that wait in it: three tiles.
TEST(TwoPassWorkTest, LengthsAreWhatL2AndSharedMemoryHold) {
  const auto lengths = [&](int64_t cols, int64_t rows = 8192) {
    const SegmentFacts of = canned_facts("layer_norm_backward", rows, cols);
    return tile_lengths(of, kLegal, distribute_two_pass(of), kLimits, 2);
  };
  EXPECT_THAT(lengths(32768), ElementsAre(1, 32));
  EXPECT_THAT(lengths(2048), ElementsAre(11, 32));
  EXPECT_THAT(lengths(256), ElementsAre(32));
  EXPECT_THAT(lengths(32768, 200), ElementsAre(1));
  // 2^20 rows are 4096 a block, 2^22 are 16384, of which shared memory has room for 7000.
  EXPECT_THAT(lengths(32, 1 << 20), ElementsAre(820, 4096));
  EXPECT_THAT(lengths(32, 1 << 22), ElementsAre(911, 5462));
}

TEST(TwoPassWorkTest, RowsThatLeaveL2AreReadTwice) {
  const SegmentFacts narrow = canned_facts("layer_norm_backward", 8192, 2048);
  const auto once = static_cast<double>(narrow.bytes_read);
  EXPECT_EQ(work_of(narrow, 4).bytes_read, once);
  // x and dy again, of which half of L2 holds a part.
  const double all = work_of(facts(), 32).bytes_read;
  EXPECT_GT(all, 1.9 * static_cast<double>(facts().bytes_read));
  EXPECT_LT(all, 2.0 * static_cast<double>(facts().bytes_read));
}

TEST(TwoPassWorkTest, AccumulatorsMoveOnceATile) {
  const double partials = 256.0 * 32768.0 * 2.0 * 4.0;
  const WorkEstimate one = work_of(facts(), 32);
  const WorkEstimate two = work_of(facts(), 16);
  const WorkEstimate eight = work_of(facts(), 4);
  EXPECT_EQ(one.partial_bytes, partials);
  EXPECT_EQ(eight.partial_bytes, partials);
  EXPECT_EQ(one.bytes_written, static_cast<double>(facts().bytes_written) + partials);
  const double back_and_forth = 2.0 * 6.0 * partials;
  EXPECT_GT(eight.l2_bytes, two.l2_bytes + 0.9 * back_and_forth);
  EXPECT_LT(eight.l2_bytes, two.l2_bytes + back_and_forth) << "L1 keeps more of smaller tiles";
  EXPECT_GT(eight.bytes_written, one.bytes_written) << "L2 holds no such rows beside them";
  const SegmentFacts narrow = canned_facts("layer_norm_backward", 8192, 1024);
  EXPECT_EQ(work_of(narrow, 4).bytes_written, work_of(narrow, 16).bytes_written) << "but these";
}

TEST(TwoPassWorkTest, EveryConstantMatters) {
  const auto cost = [&](const CostConstants& constants) {
    const WorkEstimate work = work_of(facts(), 10, constants);
    return work.block_latency_ns + work.free_latency_ns + work.issue_slots + work.end_ns;
  };
  for (double RowConstants::*member :
       {&RowConstants::block_start_ns, &RowConstants::first_load_ns, &RowConstants::chunk_ns,
        &RowConstants::cache_latency_ns, &RowConstants::block_exchange_ns,
        &RowConstants::prologue_instructions}) {
    CostConstants constants = kConstants;
    constants.row.*member *= 2.0;
    EXPECT_GT(cost(constants), cost(kConstants));
  }
  for (double CostConstants::*member :
       {&CostConstants::memory_wait_ns, &CostConstants::instructions_per_access}) {
    CostConstants constants = kConstants;
    constants.*member *= 2.0;
    EXPECT_GT(cost(constants), cost(kConstants));
  }
}

}  // namespace sinter::two_pass_work_test
