// Few long rows as two kernels: which segments split, into how many parts, and when that is
// planned.

#include "scheduler/segmentation/row_parts.h"

#include <gmock/gmock.h>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/planning/planner.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"

namespace sinter::row_parts_test {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

DeviceLimits h200() { return *find_device("H200"); }

Fusion total(const Shape& shape) {
  FusionBuilder b("total");
  b.output(b.sqrt(b.sum(b.input(DType::kF32, shape, "x"), {})), "y");
  return b.build();
}

SegmentFacts facts_of_total(const Shape& shape) { return facts_of(total(shape)); }

TEST(RowParts, AreTwoVerifiedGraphs) {
  for (const char* name : {"row_sum", "row_argmax", "mean_variance", "full_sum"}) {
    const auto split = rows_in_parts(canned_facts(name, 8, 4096), 8);
    ASSERT_TRUE(split) << name;
    for (const Subgraph* part : {&split->parts, &split->finish})
      EXPECT_THAT(verify(part->fusion), IsEmpty()) << print(part->fusion);
    EXPECT_EQ(split->passed.size(), split->parts.fusion.outputs.size());
    const auto parts = analyse(split->parts.fusion);
    const auto finish = analyse(split->finish.fusion);
    ASSERT_TRUE(parts && finish) << name;
    EXPECT_EQ(parts->space.rows * parts->space.columns, 8 * 4096) << name;
    EXPECT_EQ(finish->space.columns, 8) << name;
  }
}

TEST(RowParts, PassOnlyWhatIsCombined) {
  const auto split = rows_in_parts(facts_of_total({Extent(64), Extent(4096)}), 16);
  ASSERT_TRUE(split);
  ASSERT_THAT(split->passed, SizeIs(1));
  EXPECT_EQ(split->passed.front().bytes, 16 * 4);
}

TEST(RowParts, ArePlannedWhereRowsLeaveSmsIdle) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{1, 1 << 26}, {8, 1 << 22}, {64, 1 << 20}}) {
    const auto planned = plan_canned("row_sum", matrix(rows, columns), "H200");
    ASSERT_TRUE(planned);
    ASSERT_THAT(planned->kernels, SizeIs(2));
    ASSERT_THAT(planned->workspace, SizeIs(1));
    EXPECT_GE(planned->kernels.front().facts.space.rows, h200().sm_count);
    EXPECT_EQ(planned->workspace.front().writer, PlanStep(KernelId{0}));
    EXPECT_THAT(planned->decisions, Contains(testing::Field(&Decision::chosen, "in parts")));
    // All of it, at 4.6 TB/s with two launches: nothing near a block for each row.
    EXPECT_LT(planned->predicted_us(),
              static_cast<double>(rows * columns) * 2.0 / h200().memory_bytes_per_us * 1.1 + 12.0);
  }
  const auto full = plan_canned("row_sum", matrix(8192, 8192), "H200");
  EXPECT_THAT(full->kernels, SizeIs(1));
}

TEST(RowParts, AreCombinedByAKernelThatStartsEarlyWhereTheDeviceCan) {
  const auto planned_on = [](const char* device) {
    return plan_canned("row_sum", matrix(8, 1 << 22), device).value();
  };
  const Plan early = planned_on("H200");
  ASSERT_THAT(early.kernels, SizeIs(2));
  for (const auto& [kernel, overlap] : {std::pair{KernelId{0}, DependentLaunch::kTrigger},
                                        std::pair{KernelId{1}, DependentLaunch::kWait}}) {
    for (const ProposedSchedule& candidate : early.kernels[kernel].candidates)
      EXPECT_EQ(candidate.schedule.dependent_launch, overlap);
  }
  const CostConstants& constants = kConstants;
  EXPECT_DOUBLE_EQ(early.kernels[{1}].chosen().predicted.launch_us, constants.second_launch_us);
  const Plan late = planned_on("A100");
  ASSERT_THAT(late.kernels, SizeIs(2));
  for (const KernelPlan& kernel : late.kernels)
    EXPECT_EQ(kernel.chosen().schedule.dependent_launch, DependentLaunch::kNone);
  EXPECT_DOUBLE_EQ(late.kernels[{1}].chosen().predicted.launch_us,
                   constants.launch_us + constants.ramp_us);
}

// A block of the most threads reads a part at once, two vectors a thread.
TEST(RowParts, MayBeOneBatchOfABlock) {
  // Numbers of rows that no given number for each SM leads to these parts with.
  for (const auto& [type, rows] : {std::pair{DType::kBF16, 16}, std::pair{DType::kF32, 8}}) {
    FusionBuilder b("rows");
    b.output(b.sum(b.cast(b.input(type, {Extent(rows), Extent(1 << 21)}, "x"), DType::kF32), {1}),
             "y");
    const int64_t elements = 2 * 1024 * 16 / bytes_of(type);
    EXPECT_THAT(part_counts(facts_of(b.build()), h200()), Contains((1 << 21) / elements));
  }
}

TEST(RowParts, LeaveWhatIsNeededAgainAlone) {
  EXPECT_EQ(rows_in_parts(canned_facts("softmax", 4, 4096), 8), std::nullopt);
  EXPECT_EQ(rows_in_parts(canned_facts("cross_entropy", 4, 4096), 8), std::nullopt);
  EXPECT_EQ(rows_in_parts(canned_facts("bias_gradient", 4, 4096), 8), std::nullopt);
  EXPECT_EQ(rows_in_parts(canned_facts("copy", 4, 4096), 8), std::nullopt);
  EXPECT_EQ(rows_in_parts(canned_facts("row_sum", 4, 4096), 7), std::nullopt) << "uneven";
}

TEST(RowParts, FollowTheReducedAxes) {
  // 8191 is prime: its rows are parts, and those of both axes.
  for (const int64_t parts : part_counts(facts_of_total({Extent(8191), Extent(8192)}), h200()))
    EXPECT_EQ(parts % 8191, 0);
  EXPECT_THAT(part_counts(facts_of_total({Extent(8192), Extent(8192)}), h200()),
              ElementsAre(256, 1024, 4096, 8192));
  EXPECT_THAT(part_counts(facts_of_total({Extent(1 << 10)}), h200()), IsEmpty()) << "short";
}

TEST(RowParts, AreOfColumnsWhereBlocksLeaveNoPartialResults) {
  FusionBuilder b("middle");
  const ValueId x = b.input(DType::kF32, {Extent(2), Extent(1'000'000), Extent(64)}, "x");
  b.output(b.sum(x, {1}), "y");
  const auto planned = plan(b.build(), {}, h200());
  ASSERT_TRUE(planned);
  ASSERT_THAT(planned->kernels, SizeIs(2));
  for (const KernelPlan& kernel : planned->kernels)
    EXPECT_EQ(kernel.chosen().schedule.family, "column");
  EXPECT_EQ(planned->kernels.back().facts.space.columns, 128);
  // Sums of one run of columns are dealt to blocks as they are.
  EXPECT_EQ(rows_in_parts(canned_facts("column_sum", 4096, 64), 16), std::nullopt);
  EXPECT_TRUE(rows_in_parts(canned_facts("batch_norm_statistics", 4096, 64), 16));
}

/// Loss of a language model's head, whose logits `store` keeps.
Fusion head_loss(int64_t vocabulary, bool store) {
  FusionBuilder b("head_loss");
  const ValueId x = b.input(DType::kBF16, {4096, 64});
  const ValueId w = b.input(DType::kBF16, {vocabulary, 64});
  const ValueId logits = b.cast(b.linear(x, w), DType::kBF16);
  b.output(cross_entropy(b, logits, b.input(DType::kI64, {4096})), "loss");
  if (store) b.output(logits, "logits");
  return b.build();
}

// A tile reduces its part of a row of a contraction, and the result is in no memory unless it is an
// output: the second kernel reads partial results alone.
TEST(RowParts, OfContractionsAreAsWideAsTiles) {
  EXPECT_THAT(part_counts(facts_of(head_loss(50304, false)), h200()),
              ElementsAre(50304 / 192, 50304 / 128, 50304 / 64));
  EXPECT_THAT(part_counts(facts_of(head_loss(8200, false)), h200()),
              ElementsAre(8200 / 200, 8200 / 100, 8200 / 50));
  EXPECT_THAT(part_counts(facts_of(head_loss(256, false)), h200()), IsEmpty());
  EXPECT_THAT(part_counts(facts_of(head_loss(50257, false)), h200()), IsEmpty());
  for (const bool store : {false, true}) {
    const auto split = rows_in_parts(facts_of(head_loss(8192, store)), 32);
    ASSERT_TRUE(split);
    EXPECT_THAT(split->passed, SizeIs(3)) << "maxima, sums and the logits of the labels";
    for (const RowParts::Passed& passed : split->passed) EXPECT_EQ(passed.bytes, 4096 * 32 * 4);
    EXPECT_THAT(split->finish.fusion.inputs, SizeIs(4)) << "and the labels, of which some are none";
    EXPECT_THAT(split->parts.fusion.outputs, SizeIs(store ? 4 : 3));
    const auto parts = analyse(split->parts.fusion);
    ASSERT_TRUE(parts) << parts.error().rule;
    EXPECT_EQ(parts->space.contraction->batch_dimensions, 1U);
    EXPECT_EQ(parts->space.columns, 256);
  }
}

TEST(RowParts, ArePinnedAway) {
  const auto planned =
      plan_canned("row_sum", matrix(1, 1 << 22), "H200", {.pin = {.family = "looped"}});
  ASSERT_TRUE(planned);
  EXPECT_THAT(planned->kernels, SizeIs(1));
}

}  // namespace sinter::row_parts_test
