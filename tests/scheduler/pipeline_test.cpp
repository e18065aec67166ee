// The pipeline of a warp-specialised schedule: its threads, what arrives through it, and its bytes.

#include "scheduler/schedule/pipeline.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"

namespace sinter::pipeline_test {

using testing::ElementsAre;

/// y = x * the sum of its row + g * w: x is bf16 and g f32, both of whole rows; w is one row.
SegmentFacts scaled_rows() {
  return facts_of(R"(fusion @scaled_rows {
  %v0 x : bf16[64, 1024] = input
  %v1 w : f32[1024] = input
  %v2 g : f32[64, 1024] = input
  %v3 : f32[64, 1024] = cast %v0
  %v4 : f32[64] = reduce.sum %v3 over(1)
  %v5 : f32[64, 1024] = broadcast %v4 axes(0)
  %v6 : f32[64, 1024] = mul %v3, %v5
  %v7 : f32[64, 1024] = broadcast %v1 axes(1)
  %v8 : f32[64, 1024] = mul %v2, %v7
  %v9 y : f32[64, 1024] = add %v6, %v8
  return %v9
})");
}

Schedule stages_of(int64_t stages, int64_t rows_per_iteration = 1, int64_t cluster = 1) {
  return {.family = "warp_specialised",
          .parameters = WarpSpecialisedParameters{.cluster_size = cluster,
                                                  .pipeline_stages = stages,
                                                  .rows_per_iteration = rows_per_iteration},
          .threads_per_row = 128,
          .vector_width = 8,
          .persistent_blocks = 132};
}

TEST(PipelineTest, TheProducerIsAWarpGroupBesideTheConsumers) {
  Schedule schedule = stages_of(4);
  EXPECT_EQ(specialised_threads(schedule), 128 + 128);
  schedule.rows_per_block = 3;
  EXPECT_EQ(specialised_threads(schedule), 3 * 128 + 128);
}

TEST(PipelineTest, RowsArriveAndWeightsDoNot) {
  const SegmentFacts facts = scaled_rows();
  EXPECT_THAT(pipeline_inputs(facts),
              ElementsAre(named_value(facts.fusion, "x"), named_value(facts.fusion, "g")));
  EXPECT_EQ(pipeline_row_bytes(facts, stages_of(4)), 1024 * (2 + 4));
  EXPECT_EQ(pipeline_row_bytes(facts, stages_of(4, 1, 2)), 512 * (2 + 4)) << "half of a row";
}

TEST(PipelineTest, RowsOfAnIterationShareTheirMbarriers) {
  EXPECT_EQ(pipeline_slots(stages_of(8)), 8);
  EXPECT_EQ(pipeline_slots(stages_of(8, 2)), 4);
  EXPECT_EQ(pipeline_slots(stages_of(8, 4)), 2);
}

/// Rows of 6 KiB; two copies of an exchange of a float for each of 4 warps; a pair of mbarriers of
/// 8 bytes for each stage.
TEST(PipelineTest, SharedBytesAreStagesExchangesAndMbarriers) {
  const SegmentFacts facts = scaled_rows();
  const auto bytes = [&](const Schedule& schedule) {
    return pipeline_shared_bytes(facts, schedule, distribute(facts, schedule.kept));
  };
  EXPECT_EQ(bytes(stages_of(4)), 4 * 6144 + 2 * 4 * 4 + 4 * 2 * 8);
  EXPECT_EQ(bytes(stages_of(6)), 6 * 6144 + 2 * 4 * 4 + 6 * 2 * 8);
  // Two rows of an iteration have an exchange of their own, beside that of a row that is left over.
  EXPECT_EQ(bytes(stages_of(4, 2)), 4 * 6144 + 2 * 4 * 4 + 2 * (2 * 4 * 4) + 2 * 2 * 8);
}

TEST(PipelineTest, AStageIsReleasedEarlyIfRegistersHoldAllThatArrives) {
  const SegmentFacts facts = scaled_rows();
  const ValueId x = named_value(facts.fusion, "x");
  const ValueId g = named_value(facts.fusion, "g");
  Schedule schedule = stages_of(4);
  EXPECT_FALSE(releases_early(facts, schedule));
  schedule.kept = {{x, Residency::kRegister}, {g, Residency::kShared}};
  EXPECT_FALSE(releases_early(facts, schedule));
  schedule.kept = {{x, Residency::kRegister}, {g, Residency::kRegister}};
  EXPECT_TRUE(releases_early(facts, schedule));
}

}  // namespace sinter::pipeline_test
