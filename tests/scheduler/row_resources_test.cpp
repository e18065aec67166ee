// Resources of row schedules: the blocks of the grid, the bytes in flight, and how many blocks an
// SM is asked to hold.

#include "scheduler/budgets/row_resources.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::row_resources_test {

using testing::ElementsAre;

/// y = x * the sum of its row, in bf16.
SegmentFacts scaled(int64_t rows, int64_t columns) {
  return facts_of(fmt::format(R"(fusion @scaled {{
  %v0 x : bf16[{0}, {1}] = input
  %v1 : f32[{0}, {1}] = cast %v0
  %v2 : f32[{0}] = reduce.sum %v1 over(1)
  %v3 : f32[{0}, {1}] = broadcast %v2 axes(0)
  %v4 : f32[{0}, {1}] = mul %v1, %v3
  %v5 y : bf16[{0}, {1}] = cast %v4
  return %v5
}})",
                              rows, columns));
}

Schedule looped(int64_t unroll = 1) {
  return {.family = "looped",
          .parameters = LoopedParameters{},
          .threads_per_row = 128,
          .vector_width = 8,
          .unroll = unroll};
}

ResourceEstimate estimate_of(const SegmentFacts& facts, const Schedule& schedule) {
  return estimate_row_resources(facts, schedule, distribute(facts, schedule.kept), kLimits);
}

TEST(RowResourcesTest, TheGridHasABlockForEveryFewRows) {
  Schedule schedule = looped();
  schedule.threads_per_row = 32;
  schedule.rows_per_block = 4;
  EXPECT_EQ(estimate_of(scaled(8, 1024), schedule).blocks, 2);
  EXPECT_EQ(estimate_of(scaled(9, 1024), schedule).blocks, 3);
  EXPECT_EQ(estimate_of(scaled(9, 1024), schedule).threads, 128);
  schedule.parameters = LoopedParameters{.cluster_size = 2};
  EXPECT_EQ(estimate_of(scaled(9, 1024), schedule).blocks, 6);
  schedule.persistent_blocks = 132;
  EXPECT_EQ(estimate_of(scaled(9, 1024), schedule).blocks, 132);
}

/// 128 threads of 8 bf16 are 2 KiB to a batch.
TEST(RowResourcesTest, AChunkIsInFlightOrAKeptRow) {
  const SegmentFacts facts = scaled(8192, 8192);
  const auto per_block = [&](const Schedule& schedule) {
    const ResourceEstimate estimate = estimate_of(facts, schedule);
    return estimate.bytes_in_flight_per_sm / static_cast<double>(estimate.blocks_per_sm);
  };
  EXPECT_EQ(per_block(looped(1)), 2048);
  EXPECT_EQ(per_block(looped(4)), 4 * 2048);
  Schedule kept = looped();
  kept.family = "multi_wave";
  kept.parameters = MultiWaveParameters{};
  kept.kept = {{named_value(facts.fusion, "x"), Residency::kRegister}};
  EXPECT_EQ(per_block(kept), 8 * 2048) << "all of the row";
}

/// Rows of 1 KiB fill half of a batch; of four slots two have a row.
TEST(RowResourcesTest, OnlyElementsThatExistAreInFlight) {
  Schedule schedule = looped();
  schedule.rows_per_block = 4;
  const ResourceEstimate estimate = estimate_of(scaled(2, 512), schedule);
  EXPECT_EQ(estimate.bytes_in_flight_per_sm,
            1024.0 * 2.0 * static_cast<double>(estimate.blocks_per_sm));
}

TEST(RowResourcesTest, NeedsDependNeitherOnThePromiseNorOnTheGrid) {
  const SegmentFacts facts = scaled(8192, 8192);
  const StageList list = distribute(facts, {});
  const RowNeeds needs = row_needs(facts, looped(2), list);
  Schedule promised = looped(2);
  promised.min_blocks_per_sm = 8;
  EXPECT_EQ(row_needs(facts, promised, list).registers, needs.registers);
  EXPECT_EQ(row_needs(facts, promised, list).shared_bytes, needs.shared_bytes);
  EXPECT_GE(needs.registers, needs.tile);
  EXPECT_GE(needs.tile, 2 * 4) << "two batches of 8 bf16, packed";
}

/// What fits without a cap comes first; one and two more follow at most, and each fits under its
/// cap.
TEST(RowResourcesTest, OccupanciesStartWithWhatFits) {
  const SegmentFacts facts = scaled(8192, 8192);
  const Schedule schedule = looped(4);
  const RowNeeds needs = row_needs(facts, schedule, distribute(facts, {}));
  const Occupancies tried = occupancies(facts, schedule, needs, kLimits);
  ASSERT_FALSE(tried.empty());
  EXPECT_LE(tried.size(), 3U);
  EXPECT_EQ(tried.front(), resident_blocks(kLimits, 128, needs.registers, needs.shared_bytes));
  for (size_t i = 1; i < tried.size(); ++i) {
    EXPECT_EQ(tried[i], tried[i - 1] + 1);
    EXPECT_GE(
        resident_blocks(kLimits, 128, register_cap(kLimits, 128, tried[i]), needs.shared_bytes),
        tried[i]);
  }
}

/// More than 32 elements of a kept row in a thread's registers: ptxas would spill under a cap.
TEST(RowResourcesTest, NoCapIsOfferedForLongKeptRows) {
  for (const auto& [columns, most] : {std::pair<int64_t, size_t>{4096, 3}, {8192, 1}}) {
    const SegmentFacts facts = scaled(8192, columns);
    Schedule schedule = looped();
    schedule.family = "multi_wave";
    schedule.parameters = MultiWaveParameters{};
    schedule.kept = {{named_value(facts.fusion, "x"), Residency::kRegister}};
    const RowNeeds needs = row_needs(facts, schedule, distribute(facts, schedule.kept));
    EXPECT_LE(occupancies(facts, schedule, needs, kLimits).size(), most) << columns;
  }
}

TEST(RowResourcesTest, ABlockThatDoesNotFitIsPromisedOnce) {
  const SegmentFacts facts = scaled(64, 1024);
  const RowNeeds needs{.registers = 255, .tile = 0, .shared_bytes = int64_t{1} << 30};
  EXPECT_THAT(occupancies(facts, looped(), needs, kLimits), ElementsAre(1));
}

}  // namespace sinter::row_resources_test
