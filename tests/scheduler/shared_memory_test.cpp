// Shared bytes of a row schedule: kept values, and an exchange for each stage that reduces, in
// units of 16 bytes.

#include "scheduler/schedule/shared_memory.h"

#include <gtest/gtest.h>

#include "tests/scheduler/facts_of.h"

namespace sinter::shared_memory_test {

/// The row sums of a bf16 tensor; x - sum is stored.
SegmentFacts centred(int64_t columns) {
  return facts_of(fmt::format(R"(fusion @centred {{
  %v0 x : bf16[64, {0}] = input
  %v1 : f32[64, {0}] = cast %v0
  %v2 : f32[64] = reduce.sum %v1 over(1)
  %v3 : f32[64, {0}] = broadcast %v2 axes(0)
  %v4 y : f32[64, {0}] = sub %v1, %v3
  return %v4
}})",
                              columns));
}

Schedule rows_of(int64_t threads, int64_t rows_per_block = 1, int64_t cluster = 1) {
  return {.family = "multi_wave",
          .parameters = MultiWaveParameters{.cluster_size = cluster},
          .threads_per_row = threads,
          .rows_per_block = rows_per_block,
          .vector_width = 8};
}

int64_t exchange_of(const SegmentFacts& facts, const Schedule& schedule, int64_t copies = 1,
                    int64_t rows = 1) {
  return exchange_bytes(facts, distribute(facts, {}).stages.front(), schedule, copies, rows);
}

TEST(SharedMemoryTest, AWarpExchangesInRegisters) {
  const SegmentFacts facts = centred(1024);
  EXPECT_EQ(exchange_of(facts, rows_of(32)), 0);
  EXPECT_EQ(exchange_of(facts, rows_of(32, 8)), 0);
  EXPECT_EQ(exchange_of(centred(0), rows_of(256)), 0) << "a row without elements has its identity";
}

/// A float for each warp of the block.
TEST(SharedMemoryTest, WarpsExchangeATupleEach) {
  const SegmentFacts facts = centred(1024);
  EXPECT_EQ(exchange_of(facts, rows_of(64)), 16) << "8 bytes, rounded up";
  EXPECT_EQ(exchange_of(facts, rows_of(256)), 32);
  EXPECT_EQ(exchange_of(facts, rows_of(256, 2)), 64);
  EXPECT_EQ(exchange_of(facts, rows_of(64), 2), 16) << "two copies of 8 bytes";
  EXPECT_EQ(exchange_of(facts, rows_of(64), 2, 3), 48) << "for each of three rows";
}

/// Each block has a tuple from each warp of both blocks, and an mbarrier for each row and copy.
TEST(SharedMemoryTest, BlocksOfAClusterExchangeEvenFromOneWarp) {
  const SegmentFacts facts = centred(1024);
  EXPECT_EQ(exchange_of(facts, rows_of(32, 1, 2)), 16 + 8);
  EXPECT_EQ(exchange_of(facts, rows_of(256, 1, 4)), 8 * 4 * 4 + 8);
  EXPECT_EQ(exchange_of(facts, rows_of(32, 1, 2), 2), 16 + 2 * 8);
}

/// Count, mean and m2 are sent to other blocks in one store of 16 bytes, and exchanged between the
/// warps of a block one by one.
TEST(SharedMemoryTest, BlocksOfAClusterExchangeWholeTuples) {
  const SegmentFacts facts = canned_facts("layer_norm", 64, 1024);
  EXPECT_EQ(exchange_of(facts, rows_of(64)), 3 * 16);
  EXPECT_EQ(exchange_of(facts, rows_of(32, 1, 2)), 2 * 16 + 8);
  EXPECT_EQ(exchange_of(facts, rows_of(256, 1, 4), 2), 2 * 8 * 4 * 16 + 2 * 8);
}

/// 128 threads of 8 elements cover 1024 columns. A part of that counts whole, because a thread has
/// room for its vectors.
TEST(SharedMemoryTest, KeptValuesHaveRoomForEveryVector) {
  for (const auto& [columns, batches] :
       {std::pair<int64_t, int64_t>{1024, 1}, {1000, 1}, {8, 1}, {1032, 2}}) {
    const SegmentFacts facts = centred(columns);
    Schedule schedule = rows_of(128);
    schedule.kept = {{named_value(facts.fusion, "x"), Residency::kShared}};
    EXPECT_EQ(kept_shared_bytes(facts, schedule), batches * 1024 * 2) << columns;
    schedule.kept[0].residency = Residency::kRegister;
    EXPECT_EQ(kept_shared_bytes(facts, schedule), 0);
  }
}

TEST(SharedMemoryTest, SharedBytesAreKeptRowsAndExchanges) {
  const SegmentFacts facts = canned_facts("rms_norm", 4, 1000);
  Schedule schedule{.threads_per_row = 128, .rows_per_block = 1, .vector_width = 8};
  // One sum over 4 warps: 16 bytes.
  EXPECT_EQ(row_shared_bytes(facts, schedule), 16);
  schedule.threads_per_row = 32;
  schedule.rows_per_block = 4;
  EXPECT_EQ(row_shared_bytes(facts, schedule), 0) << "a warp exchanges by shuffles";
  schedule.kept = {{facts.kept.front(), Residency::kShared}};
  // 4 batches of 32 x 8 elements of 2 bytes, for each of 4 rows.
  EXPECT_EQ(row_shared_bytes(facts, schedule), 4 * 4 * 32 * 8 * 2);
  schedule.kept.front().residency = Residency::kRegister;
  EXPECT_EQ(row_shared_bytes(facts, schedule), 0);
}

/// With one barrier to a row, rows that follow each other alternate between two exchanges.
TEST(SharedMemoryTest, BlocksThatStayAlternateWhereOneBarrierIsAll) {
  const SegmentFacts facts = centred(1024);
  Schedule schedule = rows_of(256);
  EXPECT_EQ(row_shared_bytes(facts, schedule), 32);
  schedule.persistent_blocks = 132;
  EXPECT_EQ(row_shared_bytes(facts, schedule), 64);
  const SegmentFacts twice = facts_of(R"(fusion @twice {
  %v0 x : f32[64, 1024] = input
  %v1 : f32[64] = reduce.sum %v0 over(1)
  %v2 : f32[64, 1024] = broadcast %v1 axes(0)
  %v3 : f32[64, 1024] = sub %v0, %v2
  %v4 : f32[64, 1024] = mul %v3, %v3
  %v5 : f32[64] = reduce.sum %v4 over(1)
  %v6 : f32[64, 1024] = broadcast %v5 axes(0)
  %v7 y : f32[64, 1024] = div %v3, %v6
  return %v7
})");
  EXPECT_EQ(row_shared_bytes(twice, schedule), 32 + 32) << "a barrier of the other stage between";
}

}  // namespace sinter::shared_memory_test
