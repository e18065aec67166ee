// Plans of column reductions and of gradients, which reduce rows and columns. The tests are of
// suite PlanTest, as those of planner_test.cpp.

#include <gmock/gmock.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/sweep.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"

namespace sinter::plan_columns_test {

using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PlanTest, ColumnReductionsArePlanned) {
  EXPECT_THAT(plan_canned("column_sum", matrix(512, 1024), "H200"), PlansAs("column", NoSpill()));
}

// So few leave partial results as long as the rows, in however few blocks.
TEST(PlanTest, FewRowsTooWideForAccumulatorsGetAKernelForTheColumns) {
  for (const char* device : {"H200", "A100", "L4"}) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(16, 1 << 20), device,
                                     {.cutting = Cutting::kNeeded})
                             .value();
    ASSERT_EQ(planned.kernels.size(), 2U) << device;
    EXPECT_EQ(planned.kernels.front().facts.fusion.name, "layer_norm_backward_rows");
    EXPECT_FALSE(planned.kernels.front().facts.has_outer());
    EXPECT_EQ(planned.kernels[{1}].chosen().schedule.family, "column");
    // The two sums of each row that dx and nothing of the columns needs stay where they are.
    EXPECT_TRUE(planned.workspace.empty());
  }
}

// Its bias gradient adds up what the row's sum has gone into.
TEST(PlanTest, RowValuesThatColumnsNeedPassThroughTheWorkspace) {
  const Plan planned = plan_canned("softmax_backward_bias", matrix(16, 1 << 20), "H200",
                                   {.cutting = Cutting::kNeeded})
                           .value();
  ASSERT_EQ(planned.kernels.size(), 2U);
  ASSERT_FALSE(planned.workspace.empty());
  EXPECT_EQ(planned.workspace[0].bytes, 16 * 4);
  EXPECT_EQ(planned.workspace[0].writer, PlanStep(KernelId{0}));
  for (const auto& [mine, in_plan] : planned.kernels[{1}].in_plan) {
    if (in_plan != planned.workspace[0].value) continue;
    EXPECT_EQ(slot_of(planned, {1}, mine, BufferUse::kRead).kind, TensorSlot::Kind::kWorkspace);
  }
}

TEST(PlanTest, ATotalOfElementsIsOneMorePartialResult) {
  const Plan planned = plan_canned("dyt_backward", matrix(8192, 4096), "H200").value();
  ASSERT_EQ(planned.kernels.size(), 2U);
  const int64_t rows = partial_rows(planned.kernels.front().chosen().schedule);
  std::vector<int64_t> bytes;
  for (const WorkspaceTensor& tensor : planned.workspace) bytes.push_back(tensor.bytes);
  EXPECT_THAT(bytes, testing::UnorderedElementsAre(rows * 4, rows * 4096 * 4, rows * 4096 * 4));
  EXPECT_THAT(plan_canned("dyt_backward", matrix(8192, 4096), "H200"),
              RejectedBy("column", HasSubstr("a total takes all")));
  EXPECT_EQ(planned.kernels[{1}].chosen().schedule.family, "column") << "finishes all three";
}

TEST(PlanTest, TotalsOfRowValuesTakePartInColumnSums) {
  for (const char* family : {"column", "multi_wave"}) {
    const PlanOptions pinned{.pin = {.family = family}};
    const Plan planned =
        plan_canned("weighted_column_mean", matrix(20000, 64), "H200", pinned).value();
    EXPECT_EQ(planned.kernels.front().facts.outer_reductions.size(), 2U) << family;
  }
}

TEST(PlanTest, ColumnsThatAllReduceToTheSameAreRefused) {
  FusionBuilder b("sums_of_a_broadcast");
  const ValueId x = b.input(DType::kF32, {6, 64}, "x");
  const ValueId w = b.input(DType::kF32, {6}, "w");
  b.output(b.sum(x, {0}), "sums");
  b.output(b.sum(b.broadcast(w, {6, 64}, {0}), {0}), "repeated");
  EXPECT_THAT(plan(b.build(), {}, *find_device("H200"), {.pin = {.family = "column"}}),
              RejectedBy("column", HasSubstr("gives every column the same value")));
  // Unless the copies are written out first.
  const auto planned = plan(b.build(), {}, *find_device("H200"));
  ASSERT_TRUE(planned) << planned.error().text();
  EXPECT_TRUE(planned->is_segmented);
}

TEST(PlanTest, ATotalOfRowLossesIsFinishedByTheLastBlockOrAKernelOfItsOwn) {
  for (const char* device : {"H200", "A100", "L4"}) {
    const Plan planned = plan_canned("row_and_total_loss", matrix(4096, 32000), device).value();
    if (planned.kernels.front().chosen().schedule.finish == Finish::kLastBlock) {
      EXPECT_EQ(planned.kernels.size(), 1U) << device;
      continue;
    }
    ASSERT_EQ(planned.kernels.size(), 2U) << device;
    EXPECT_EQ(planned.kernels[{1}].facts.space.rows, 1) << "what is left is one row";
  }
}

TEST(PlanTest, BlocksOfAClusterOrTheLastBlockFinishLongColumnSums) {
  const Plan planned = plan_canned("bias_gradient", matrix(8192, 4096), "H200").value();
  EXPECT_EQ(planned.kernels.size(), 1U);
  const auto& candidates = planned.kernels.front().candidates;
  const auto in_clusters = std::ranges::find_if(candidates, [](const ProposedSchedule& candidate) {
    return candidate.schedule.cluster_size() > 1 && candidate.schedule.persistent_blocks == 0;
  });
  ASSERT_NE(in_clusters, candidates.end());
  EXPECT_EQ(in_clusters->schedule.family, "column");
  const auto pinned = plan(find_canned_fusion("bias_gradient")->build(), matrix(8192, 4096),
                           *find_device("H200"), {.pin = {.schedule = in_clusters->schedule}});
  ASSERT_TRUE(pinned) << pinned.error().text();
  EXPECT_EQ(pinned->kernels.size(), 1U);
  EXPECT_THAT(pinned->workspace, IsEmpty());
}

TEST(PlanTest, WithoutClustersLongColumnSumsAreSplitOverSeveralBlocks) {
  const Plan planned = plan_canned("bias_gradient", matrix(8192, 4096), "A100").value();
  const Schedule& schedule = planned.kernels.front().chosen().schedule;
  EXPECT_EQ(schedule.family, "column");
  EXPECT_GT(schedule.persistent_blocks, 1);
  EXPECT_EQ(planned.kernels.size(), schedule.finish == Finish::kLastBlock ? 1U : 2U);
  EXPECT_EQ(planned.workspace[0].bytes, schedule.persistent_blocks * 4096 * 4);
}

TEST(PlanTest, TheKernelThatFinishesStartsEarlyWhereTheDeviceCan) {
  const auto overlaps = [](const char* device) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(8192, 4096), device).value();
    return std::pair(planned.kernels.front().chosen().schedule.dependent_launch,
                     planned.kernels[{1}].chosen().schedule.dependent_launch);
  };
  EXPECT_EQ(overlaps("H200"), std::pair(DependentLaunch::kTrigger, DependentLaunch::kWait));
  EXPECT_EQ(overlaps("A100"), std::pair(DependentLaunch::kNone, DependentLaunch::kNone));
}

TEST(PlanTest, InnerAndOuterReductionsShareOnePassAndASecondKernelFinishes) {
  const auto planned = plan_canned("layer_norm_backward", matrix(8192, 4096), "H200");
  ASSERT_TRUE(planned) << planned.error().text();
  ASSERT_EQ(planned->kernels.size(), 2U);
  const Schedule& schedule = planned->kernels.front().chosen().schedule;
  EXPECT_GT(schedule.persistent_blocks, 0);
  EXPECT_EQ(planned->kernels[{1}].chosen().schedule.family, "column");
  // A row of f32 for every block of the grid, for dweight and dbias.
  ASSERT_EQ(planned->workspace.size(), 2U);
  EXPECT_EQ(planned->workspace[0].bytes, partial_rows(schedule) * 4096 * 4);
  EXPECT_GT(planned->kernels.front().chosen().predicted.second_stage_us, 0.0);
}

TEST(PlanTest, AKernelEachIsNotPlannedWhereItsBytesTakeLongerThanOnePass) {
  const Plan wide = plan_canned("layer_norm_backward", matrix(16384, 8192), "H200").value();
  EXPECT_EQ(wide.decisions.front().chosen, "one pass");
  EXPECT_EQ(wide.decisions.front().candidates.back().because, "its launches and bytes alone");
  // A few long rows hardly cost bytes, and leave SMs idle: both ways are planned and compared.
  const Plan few = plan_canned("layer_norm_backward", matrix(131, 16384), "H200").value();
  EXPECT_EQ(few.decisions.front().candidates.back().because, "");
}

// Measured on an H200: pipelines win for norm gradients at all of these, and an A100 has no bulk
// copies.
TEST(PlanTest, NormGradientsSpecialiseWarpsWhereTheDeviceCan) {
  for (const auto& extents : {matrix(16384, 2048), matrix(8192, 4096), matrix(16384, 8192)}) {
    const Plan h200 = plan_canned("layer_norm_backward", extents, "H200").value();
    EXPECT_EQ(h200.kernels.front().chosen().schedule.family, "warp_specialised");
    const Plan a100 = plan_canned("layer_norm_backward", extents, "A100").value();
    EXPECT_EQ(a100.kernels.front().chosen().schedule.family, "multi_wave");
    EXPECT_THAT(a100.rejections,
                testing::Contains(testing::Field(&Rejection::rule, HasSubstr("no bulk copies"))));
  }
}

// A pipeline's group takes one row of 64 bytes at a time, and waits for each.
TEST(PlanTest, GradientsOfNarrowRowsGoInBlocksOfManyRows) {
  for (const DeviceLimits& device : device_presets()) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(16384, 32), device.name).value();
    EXPECT_EQ(kind_of(planned), "multi_wave") << device.name;
    EXPECT_GE(planned.kernels.front().chosen().schedule.rows_per_block, 8) << device.name;
  }
}

// One pass takes a second kernel as well, and so few rows are soon read again.
TEST(PlanTest, GradientsOfFewWideRowsRunRowsAndColumnsApart) {
  for (const DeviceLimits& device : device_presets()) {
    const Plan planned =
        plan_canned("layer_norm_backward", matrix(120, 16384), device.name).value();
    EXPECT_THAT(kind_of(planned), AnyOf("multi_wave + column", "looped + column")) << device.name;
    EXPECT_EQ(planned.decisions.front().chosen, "a kernel each") << device.name;
  }
}

// Its column sums are the row itself.
TEST(PlanTest, AGradientOfOneRowIsOneKernel) {
  for (const DeviceLimits& device : device_presets()) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(1, 4096), device.name).value();
    ASSERT_EQ(planned.kernels.size(), 1U) << device.name;
    EXPECT_THAT(planned.kernels.front().chosen().schedule.family, AnyOf("multi_wave", "looped"))
        << device.name;
    EXPECT_EQ(planned.kernels.front().chosen().schedule.persistent_blocks, 0) << device.name;
    EXPECT_THAT(planned.workspace, IsEmpty()) << device.name;
  }
}

TEST(PlanTest, RowsThatBulkCopiesCannotTakeAreRefusedWithAReason) {
  const Plan odd = plan_canned("layer_norm_backward", matrix(4096, 1543), "H200").value();
  EXPECT_EQ(odd.kernels.front().chosen().schedule.family, "multi_wave");
  EXPECT_THAT(odd.rejections, testing::Contains(testing::Field(
                                  &Rejection::rule, HasSubstr("whole, aligned 16 bytes"))));
}

TEST(PlanTest, AnotherGridGetsAnotherFinish) {
  Plan planned = plan_canned("rms_norm_backward", matrix(512, 1024), "H200").value();
  Schedule other = planned.kernels.front().chosen().schedule;
  other.persistent_blocks = 3;
  ASSERT_TRUE(plan_finish(planned, {0}, other, scheduling_families()));
  ASSERT_EQ(planned.kernels.size(), 2U);
  EXPECT_EQ(planned.workspace[0].bytes, 3 * 1024 * 4);
  EXPECT_EQ(planned.kernels[{1}].facts.space.rows, 3);
}

}  // namespace sinter::plan_columns_test
