// Rows that the blocks of a cluster share: which schedules may, what they take, and when they are
// chosen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/cost/cost_model.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/plan/plan.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/shared_memory.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"

namespace sinter::cluster_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Schedule& chosen(const Result<Plan>& plan) {
  return plan.value().kernels.front().chosen().schedule;
}

class ClusterScheduleTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> reasons(const Schedule& schedule,
                                                 std::string_view device = "H200") const {
    return reasons_against(schedule, facts_, *find_device(device));
  }

  SegmentFacts facts_ =
      facts_of(find_canned_fusion("layer_norm_backward")->build(), matrix(64, 16384));
  Schedule legal_{.family = "multi_wave",
                  .parameters = MultiWaveParameters{.cluster_size = 4},
                  .threads_per_row = 256,
                  .vector_width = 8,
                  .persistent_blocks = 120};
};

TEST_F(ClusterScheduleTest, BlocksHaveEqualPartsOfARow) {
  EXPECT_THAT(reasons(legal_), IsEmpty());
  EXPECT_EQ(columns_per_block(facts_, legal_), 4096);
  EXPECT_EQ(batch_count(facts_, legal_), 2);
  EXPECT_EQ(partial_rows(legal_), 30);
  EXPECT_EQ(rows_at_once(legal_), 30);
}

// A tuple from each of 4 x 8 warps, of two sums, for two rounds, and a mbarrier for each.
TEST_F(ClusterScheduleTest, ExchangesTakeWhatAllBlocksSend) {
  EXPECT_EQ(row_shared_bytes(facts_, legal_), 2 * (4 * 8) * 2 * 4 + 2 * 8);
}

TEST_F(ClusterScheduleTest, WhatCannotBeSharedIsRefusedWithTheNumber) {
  const auto with = [&](auto change) {
    Schedule schedule = legal_;
    change(schedule);
    return schedule;
  };
  EXPECT_THAT(reasons(legal_, "A100"), ElementsAre(HasSubstr("no thread-block clusters")));
  for (const int64_t blocks : {-4, 0, 3, 32}) {
    EXPECT_THAT(reasons(with([&](Schedule& s) {
                  std::get<MultiWaveParameters>(s.parameters).cluster_size = blocks;
                })),
                ElementsAre(HasSubstr("no power of two")))
        << blocks;
  }
  EXPECT_THAT(reasons(with([](Schedule& s) {
                s.threads_per_row = 16;
                s.rows_per_block = 2;
              })),
              ElementsAre(HasSubstr("whole warps for its part")));
  EXPECT_THAT(reasons(with([](Schedule& s) { s.persistent_blocks = 122; })),
              ElementsAre(HasSubstr("not made of whole clusters")));
}

TEST(ClusterTest, BlocksThatShareColumnsAreClustersThatTheDeviceRuns) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("bias_gradient")->build(), matrix(640, 1024));
  const auto said = [&](int64_t cluster, int64_t blocks, const char* device) {
    const Schedule schedule{.family = "column",
                            .parameters = ColumnParameters{.cluster_size = cluster},
                            .threads_per_row = 8,
                            .rows_per_block = 32,
                            .vector_width = 8,
                            .persistent_blocks = blocks};
    const auto rejections =
        verify_schedule(facts, schedule, *find_device(device), scheduling_families());
    return rejections.empty() ? std::string() : text_of(rejections[0]);
  };
  EXPECT_EQ(said(4, 0, "H200"), "");
  EXPECT_EQ(said(4, 8, "H200"), "");
  EXPECT_THAT(said(4, 0, "A100"), HasSubstr("the device has no thread-block clusters"));
  EXPECT_THAT(said(3, 0, "H200"), HasSubstr("no power of two"));
  EXPECT_THAT(said(4, 6, "H200"), HasSubstr("not made of whole clusters (value 2, limit 0"));
}

TEST(ClusterTest, NoneIsLargerThanWhatFindsAPlace) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("bias_gradient")->build(), matrix(640, 1024));
  DeviceLimits slice = *find_device("H200");
  slice.sm_count = 16;
  const auto said = [&](int64_t cluster) {
    const Schedule schedule{.family = "column",
                            .parameters = ColumnParameters{.cluster_size = cluster},
                            .threads_per_row = 32,
                            .vector_width = 8};
    return verify_schedule(facts, schedule, slice, scheduling_families());
  };
  EXPECT_TRUE(said(8).empty());
  ASSERT_EQ(said(16).size(), 1U);
  EXPECT_THAT(text_of(said(16)[0]), HasSubstr("finds a place on the device's SMs (value 16"));
}

TEST(ClusterTest, TheFirstBlockReceivesWhatTheOthersAccumulated) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("bias_gradient")->build(), matrix(640, 1024));
  Schedule schedule{.family = "column",
                    .parameters = ColumnParameters{},
                    .threads_per_row = 8,
                    .vector_width = 8};
  EXPECT_EQ(block_exchange_bytes(facts, schedule), 0);
  schedule.parameters = ColumnParameters{.cluster_size = 4};
  // Three blocks send a float for each of 64 columns, and an mbarrier counts them.
  EXPECT_EQ(block_exchange_bytes(facts, schedule), 3 * 64 * 4 + 16);
}

TEST(ClusterTest, RowsThatDoNotSplitAreRefused) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("layer_norm_backward")->build(), matrix(64, 1000));
  const Schedule schedule{.family = "multi_wave",
                          .parameters = MultiWaveParameters{.cluster_size = 2},
                          .threads_per_row = 32,
                          .vector_width = 8,
                          .persistent_blocks = 8};
  const auto rejections =
      verify_schedule(facts, schedule, *find_device("H200"), scheduling_families());
  ASSERT_EQ(rejections.size(), 1U);
  EXPECT_EQ(rejections[0].value, 8) << "1000 is 62 times 16 and 8";
}

// Of 132 SMs, pairs lose none, and larger clusters the 12 that cuOccupancyMaxActiveClusters says.
// 50,257 columns hold 6,282 vectors at most and one less at least: 1,571 for each block, in seven
// batches of which six end inside of every block's part.
TEST(ClusterTest, PartsOfShiftedRowsAreWholeVectors) {
  const SegmentFacts facts = facts_of(find_canned_fusion("softmax")->build(), matrix(64, 50257));
  const Schedule schedule{.family = "multi_wave",
                          .parameters = MultiWaveParameters{.cluster_size = 4},
                          .threads_per_row = 256,
                          .vector_width = 8,
                          .row_access = RowAccess::kUnaligned};
  EXPECT_EQ(columns_per_block(facts, schedule), 12568);
  EXPECT_EQ(columns_of_last_block(facts, schedule), 50248 - 3 * 12568);
  EXPECT_EQ(batch_count(facts, schedule), 7);
  const auto spans = batch_spans(facts, schedule);
  EXPECT_THAT(spans, ::testing::ElementsAre(BatchSpan{0, 6, Predication::kNone},
                                            BatchSpan{6, 7, Predication::kVector}));
}

TEST(ClusterTest, LargerClustersLeaveSmsOver) {
  const DeviceLimits limits = *find_device("H200");
  EXPECT_EQ(cluster_capacity(limits, 2, 1), 132);
  EXPECT_EQ(cluster_capacity(limits, 2, 2), 264);
  EXPECT_EQ(cluster_capacity(limits, 4, 1), 120);
  EXPECT_EQ(cluster_capacity(limits, 8, 2), 240);
}

TEST(ClusterTest, ExchangesOverMoreBlocksTakeLonger) {
  EXPECT_EQ(cluster_exchange_time(1, cost_constants_of("H200")), 0.0);
  EXPECT_GT(cluster_exchange_time(2, cost_constants_of("H200")), 0.0);
  EXPECT_GT(cluster_exchange_time(8, cost_constants_of("H200")),
            cluster_exchange_time(4, cost_constants_of("H200")));
}

// Pipelines of whole rows of 16,384 hold three.
TEST(ClusterTest, WideGradientsShareTheirRowsWhereTheDeviceCan) {
  for (const int64_t columns : {16384, 24576, 32768}) {
    const Plan plan = plan_canned("layer_norm_backward", matrix(8192, columns), "H200").value();
    const Schedule& schedule = plan.kernels.front().chosen().schedule;
    EXPECT_EQ(schedule.family, "warp_specialised") << columns;
    EXPECT_GT(schedule.cluster_size(), 1) << columns;
    EXPECT_GE(schedule.pipeline_stages(), 3) << columns;
  }
  EXPECT_EQ(chosen(plan_canned("layer_norm_backward", matrix(8192, 32768), "A100")).cluster_size(),
            1);
}

TEST(ClusterTest, ScheduleTextNamesClustersOnly) {
  Schedule schedule{.family = "multi_wave", .parameters = MultiWaveParameters{.cluster_size = 4}};
  EXPECT_THAT(print(schedule), HasSubstr("cluster_size 4"));
  EXPECT_EQ(parse_schedule(print(schedule)).value(), schedule);
  std::get<MultiWaveParameters>(schedule.parameters).cluster_size = 1;
  EXPECT_THAT(print(schedule), testing::Not(HasSubstr("cluster")));
}

}  // namespace sinter::cluster_test
