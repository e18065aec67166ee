// The sizes of what column reductions accumulate: in a thread, between the row slots of a block,
// between blocks, and in memory.

#include "scheduler/schedule/accumulators.h"

#include <gtest/gtest.h>

#include "scheduler/families/column.h"
#include "scheduler/program/program_walks.h"
#include "tests/scheduler/facts_of.h"

namespace sinter::accumulators_test {

/// The sum of each column in f32, the maximum of each in f64, and the total.
SegmentFacts three_reductions(int64_t columns = 1024) {
  return facts_of(fmt::format(R"(fusion @three {{
  %v0 x : f32[64, {0}] = input
  %v1 s : f32[{0}] = reduce.sum %v0 over(0)
  %v2 : f64[64, {0}] = cast %v0
  %v3 m : f64[{0}] = reduce.max %v2 over(0)
  %v4 t : f32 = reduce.sum %v0 over(0, 1)
  return %v1, %v3, %v4
}})",
                              columns));
}

/// The sum of each column alone.
SegmentFacts column_sums(int64_t columns = 1024) {
  return facts_of(fmt::format(R"(fusion @sums {{
  %v0 x : f32[64, {0}] = input
  %v1 s : f32[{0}] = reduce.sum %v0 over(0)
  return %v1
}})",
                              columns));
}

Schedule column_schedule(int64_t cluster = 1) {
  return {.family = "column",
          .parameters = ColumnParameters{.cluster_size = cluster},
          .threads_per_row = 8,
          .rows_per_block = 4,
          .vector_width = 4};
}

TEST(AccumulatorsTest, AThreadHasATupleForEachColumnAndOneForATotal) {
  EXPECT_EQ(accumulator_words(three_reductions(), 8), 8 * (1 + 2) + 1);
  EXPECT_EQ(accumulator_words(three_reductions(), 0), 1);
  EXPECT_EQ(accumulator_words(column_sums(), 8), 8);
  EXPECT_EQ(accumulator_column_bytes(three_reductions()), 4 + 8);
}

TEST(AccumulatorsTest, ATotalIsNoColumn) {
  EXPECT_TRUE(accumulates_columns(column_sums()));
  const SegmentFacts total = facts_of(R"(fusion @total {
  %v0 x : f32[64, 1024] = input
  %v1 : f32[64] = reduce.sum %v0 over(1)
  %v2 : f32[64] = exp %v1
  %v3 t : f32 = reduce.sum %v2 over(0)
  return %v3
})");
  ASSERT_TRUE(total.has_outer());
  EXPECT_FALSE(accumulates_columns(total));
  EXPECT_EQ(accumulator_column_bytes(total), 0);
  EXPECT_EQ(partial_elements(total), 1);
}

TEST(AccumulatorsTest, ARowOfPartialResultsHasThemAll) {
  EXPECT_EQ(partial_elements(three_reductions()), 1024 + 1024 + 1);
  EXPECT_EQ(partial_elements(column_sums(0)), 0);
}

TEST(AccumulatorsTest, OneRowOfPartialResultsIsOfABlockOrACluster) {
  Schedule schedule = column_schedule();
  schedule.persistent_blocks = 12;
  EXPECT_EQ(partial_rows(schedule), 12);
  schedule.parameters = ColumnParameters{.cluster_size = 4};
  EXPECT_EQ(partial_rows(schedule), 3);
}

/// 8 threads of 4 columns: 32 columns.
TEST(AccumulatorsTest, TheLastStripMayBeShort) {
  EXPECT_EQ(column_strips(column_sums(1024), column_schedule()), 32);
  EXPECT_EQ(column_strips(column_sums(1025), column_schedule()), 33);
  EXPECT_EQ(column_strips(column_sums(2), column_schedule()), 1);
  EXPECT_EQ(column_strips(column_sums(0), column_schedule()), 0);
}

/// Blocks that take the rows of a strip in turns.
int64_t blocks_of_strip(const Schedule& schedule) {
  const program::Program program = column_program(column_sums(1024), schedule);
  return program::blocks_of_columns(*program::step_of<program::Fold>(program));
}

TEST(AccumulatorsTest, AStripHasABlockAClusterOrTheBlocksThatStay) {
  Schedule schedule = column_schedule(4);
  EXPECT_EQ(blocks_of_strip(column_schedule()), 1);
  EXPECT_EQ(blocks_of_strip(schedule), 4);
  schedule.persistent_blocks = 16;
  EXPECT_EQ(blocks_of_strip(schedule), 16);
}

/// The tuples of 3 of 4 slots: 24 threads with 4 columns each.
TEST(AccumulatorsTest, SlotsSendTheirTuplesToTheFirst) {
  EXPECT_EQ(slot_exchange_bytes(column_sums(), column_schedule()), 24 * 4 * 4);
  EXPECT_EQ(slot_exchange_bytes(three_reductions(), column_schedule()), 24 * 4 * (4 + 8) + 24 * 4);
  Schedule one = column_schedule();
  one.rows_per_block = 1;
  EXPECT_EQ(slot_exchange_bytes(column_sums(), one), 0);
}

/// The tuples of the first slots of 3 of 4 blocks, and an mbarrier, in units of 16 bytes.
TEST(AccumulatorsTest, BlocksSendTheirTuplesToTheFirst) {
  EXPECT_EQ(block_exchange_bytes(column_sums(), column_schedule()), 0) << "one block";
  EXPECT_EQ(block_exchange_bytes(column_sums(), column_schedule(4)), 24 * 4 * 4 + 16);
}

/// Vectors of 8 floats are two accesses of 16 bytes, and of 8 doubles four. Each is read and
/// written.
TEST(AccumulatorsTest, SharedAccumulatorsMoveInEveryRow) {
  const SegmentFacts facts = three_reductions();
  const Stage stage = distribute(facts, {}).stages.back();
  Schedule schedule{.family = "multi_wave",
                    .parameters = MultiWaveParameters{.accumulators = Residency::kShared},
                    .vector_width = 8};
  const AccumulatorTraffic traffic = accumulator_traffic(facts, stage, schedule);
  EXPECT_EQ(traffic.column_bytes, 2 * (4 + 8));
  EXPECT_EQ(traffic.vector_accesses, 2 * (2 + 4));
  schedule.parameters = MultiWaveParameters{};
  EXPECT_EQ(accumulator_traffic(facts, stage, schedule).column_bytes, 0);
}

}  // namespace sinter::accumulators_test
