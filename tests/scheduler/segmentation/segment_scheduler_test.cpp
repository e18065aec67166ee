// The kernels of one segment: one, or one and its finish; the same again at other sizes; and what
// is refused.

#include "scheduler/segmentation/segment_scheduler.h"

#include <gmock/gmock.h>

#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter::segment_scheduler_test {

using testing::IsEmpty;
using testing::SizeIs;

ScheduledSegment scheduled(const SegmentFacts& facts) {
  return schedule_segment(facts, kLimits, {}).value();
}

double sum_of_kernels(const ScheduledSegment& segment) {
  double us = 0.0;
  for (const KernelPlan& kernel : segment.kernels) us += kernel.chosen().predicted.total_us;
  return us;
}

TEST(SegmentSchedulerTest, ANormIsOneKernelWithoutAWorkspace) {
  const ScheduledSegment norm = scheduled(canned_facts("rms_norm", 8192, 4096));
  ASSERT_THAT(norm.kernels, SizeIs(1));
  EXPECT_THAT(norm.workspace, IsEmpty());
  EXPECT_EQ(norm.predicted_us(), sum_of_kernels(norm));
}

/// The gradients of the weight and the bias are sums over all rows, whose partial results a second
/// kernel adds up.
TEST(SegmentSchedulerTest, AGradientLeavesPartialResultsForItsFinish) {
  const ScheduledSegment gradient = scheduled(canned_facts("layer_norm_backward", 8192, 4096));
  ASSERT_THAT(gradient.kernels, SizeIs(2));
  EXPECT_FALSE(gradient.kernels[KernelId{0}].finishes);
  EXPECT_TRUE(gradient.kernels[KernelId{1}].finishes);
  ASSERT_THAT(gradient.workspace, SizeIs(2));
  const int64_t rows = gradient.kernels[KernelId{0}].chosen().schedule.persistent_blocks /
                       gradient.kernels[KernelId{0}].chosen().schedule.cluster_size();
  for (const WorkspaceTensor& tensor : gradient.workspace) {
    EXPECT_EQ(tensor.writer, PlanStep(KernelId{0}));
    EXPECT_EQ(tensor.holds, WorkspaceTensor::Holds::kPartials);
    EXPECT_EQ(tensor.bytes, rows * 4096 * 4);
  }
}

TEST(SegmentSchedulerTest, WithoutFamiliesASegmentIsUnsupported) {
  const auto segment =
      schedule_segment(canned_facts("rms_norm", 64, 1024), kLimits, {.families = {}});
  ASSERT_FALSE(segment.has_value());
  EXPECT_EQ(segment.error().kind, ErrorKind::kUnsupported);
}

TEST(SegmentSchedulerTest, APinThatDoesNotFitIsExhausted) {
  const Schedule wide = parsed_schedule(
      "schedule multi_wave { threads_per_row 32 vector_width 8 keep %v0 in register }");
  const auto segment =
      schedule_segment(canned_facts("rms_norm", 64, 65536), kLimits, {.pin = {.schedule = wide}});
  ASSERT_FALSE(segment.has_value());
  EXPECT_EQ(segment.error().kind, ErrorKind::kResourceExhausted);
}

TEST(SegmentSchedulerTest, OtherSizesTakeTheSchedulesOfAModel) {
  const ScheduledSegment model = scheduled(canned_facts("layer_norm_backward", 8192, 4096));
  const SegmentFacts fewer = canned_facts("layer_norm_backward", 6000, 4096);
  const std::vector<KernelPlan> kernels(model.kernels.begin(), model.kernels.end());
  const ScheduledSegment like =
      schedule_like(fewer, kernels, kLimits, scheduling_families()).value();
  ASSERT_EQ(like.kernels.size(), model.kernels.size());
  for (const KernelId id : like.kernels.ids())
    EXPECT_EQ(like.kernels[id].chosen().schedule, kernels[id.index].chosen().schedule);
  // A norm has no second kernel.
  const auto norm =
      schedule_like(canned_facts("rms_norm", 8192, 4096), kernels, kLimits, scheduling_families());
  ASSERT_FALSE(norm.has_value());
}

TEST(SegmentSchedulerTest, OnlyPartialResultsAreFinished) {
  const FamilySet families = scheduling_families();
  const SegmentFacts norm = canned_facts("rms_norm", 8192, 4096);
  const FinishPlan nothing =
      finish_segment(norm, scheduled(norm).kernels[KernelId{0}].chosen().schedule, kLimits,
                     families)
          .value();
  EXPECT_FALSE(nothing.kernel.has_value());
  EXPECT_THAT(nothing.workspace, IsEmpty());
  EXPECT_THAT(nothing.decisions, IsEmpty());

  const SegmentFacts gradient = canned_facts("layer_norm_backward", 8192, 4096);
  Schedule schedule = scheduled(gradient).kernels[KernelId{0}].chosen().schedule;
  schedule.finish = Finish::kLastBlock;
  schedule.dependent_launch = DependentLaunch::kNone;
  const FinishPlan by_last_block = finish_segment(gradient, schedule, kLimits, families).value();
  EXPECT_FALSE(by_last_block.kernel.has_value());
  EXPECT_FALSE(by_last_block.workspace.empty());
  for (const WorkspaceTensor& tensor : by_last_block.workspace) EXPECT_TRUE(tensor.own());
  for (const Decision& decision : by_last_block.decisions)
    EXPECT_TRUE(is_finish_decision(decision));
}

TEST(SegmentSchedulerTest, KnownFinishesAreNotPlannedAgain) {
  constexpr size_t kMost = 3;
  FinishKernels finishes(kMost);
  const SegmentFacts gradient = canned_facts("layer_norm_backward", 8192, 4096);
  const ScheduledSegment alone = scheduled(gradient);
  ASSERT_THAT(alone.kernels, SizeIs(2));
  const KernelPlan& finish = alone.kernels[KernelId{1}];
  const bool starts_early =
      alone.kernels[KernelId{0}].chosen().schedule.dependent_launch == DependentLaunch::kTrigger;
  EXPECT_EQ(finishes.find(finish.facts.fusion, starts_early), nullptr);
  for (const bool is_known : {false, true}) {
    const ScheduledSegment again = schedule_segment(gradient, kLimits, {}, &finishes).value();
    EXPECT_NE(finishes.find(finish.facts.fusion, starts_early), nullptr);
    EXPECT_EQ(finishes.find(finish.facts.fusion, !starts_early), nullptr);
    EXPECT_EQ(again.workspace, alone.workspace);
    EXPECT_EQ(again.decisions, alone.decisions);
    ASSERT_THAT(again.kernels, SizeIs(2));
    const KernelPlan& kernel = again.kernels[KernelId{1}];
    EXPECT_EQ(kernel.in_plan, finish.in_plan);
    EXPECT_EQ(kernel.facts.fusion, finish.facts.fusion);
    EXPECT_TRUE(kernel.finishes);
    EXPECT_EQ(kernel.chosen(), finish.chosen());
    EXPECT_EQ(kernel.candidates.size(), is_known ? kMost : finish.candidates.size());
  }
}

}  // namespace sinter::segment_scheduler_test
