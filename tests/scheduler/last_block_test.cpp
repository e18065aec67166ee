// Partial results that the last block finishes: which schedules may have that, what it takes, and
// when it is chosen.

#include "scheduler/schedule/last_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/cost/last_block_time.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"

namespace sinter::last_block_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> reasons(const SegmentFacts& facts, const Schedule& schedule) {
  return reasons_against(schedule, facts, *find_device("H200"));
}

Schedule rows_with_last_block_finish() {
  return {.family = "multi_wave",
          .parameters = MultiWaveParameters{},
          .threads_per_row = 128,
          .rows_per_block = 2,
          .vector_width = 4,
          .persistent_blocks = 132,
          .finish = Finish::kLastBlock};
}

TEST(LastBlockTest, TextNamesItWhereThereIsOne) {
  const Schedule schedule = rows_with_last_block_finish();
  EXPECT_THAT(print(schedule), HasSubstr("finish last_block"));
  EXPECT_EQ(parse_schedule(print(schedule)).value(), schedule);
  EXPECT_EQ(further_numbers(schedule), ", finish last_block");
  Schedule without = schedule;
  without.finish = Finish::kKernel;
  EXPECT_THAT(print(without), Not(HasSubstr("finish")));
  EXPECT_NE(hash_of(without), hash_of(schedule));
  const auto wrong = parse_schedule("schedule multi_wave { finish cluster }");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("'kernel', 'last_block'"));
}

/// The best schedule of rows that are kept, finished by the last block in place of its second
/// kernel.
Plan plan_with_last_block_finish(std::string_view fusion, int64_t rows, int64_t columns) {
  const auto planned = [&](SchedulePin pin) {
    return plan_canned(fusion, matrix(rows, columns), "H200", {.pin = std::move(pin)}).value();
  };
  Schedule schedule = planned({.family = "multi_wave"}).kernels.front().chosen().schedule;
  schedule.finish = Finish::kLastBlock;
  schedule.dependent_launch = DependentLaunch::kNone;
  return planned({.schedule = std::move(schedule)});
}

TEST(LastBlockTest, OnlySchedulesThatLeavePartialResultsHaveOne) {
  const SegmentFacts facts = canned_facts("dyt_backward", 512, 512);
  EXPECT_THAT(reasons(facts, rows_with_last_block_finish()), IsEmpty());
  Schedule schedule = rows_with_last_block_finish();
  schedule.dependent_launch = DependentLaunch::kTrigger;
  EXPECT_THAT(reasons(facts, schedule),
              ElementsAre(HasSubstr("finish their own partial results run alone")));

  const SegmentFacts forward = canned_facts("softmax", 64, 512);
  EXPECT_THAT(reasons(forward, rows_with_last_block_finish()),
              Contains(HasSubstr("no block leaves partial results")));
  const SegmentFacts columns = canned_facts("bias_gradient", 64, 512);
  const Schedule whole{.family = "column",
                       .parameters = ColumnParameters{},
                       .threads_per_row = 32,
                       .rows_per_block = 8,
                       .vector_width = 4,
                       .finish = Finish::kLastBlock};
  EXPECT_THAT(reasons(columns, whole), ElementsAre(AllOf(HasSubstr("no block leaves partial"),
                                                         HasSubstr("0, limit 1 persistent"))));
}

TEST(LastBlockTest, FamiliesWithoutPartialResultsRefuseIt) {
  const Schedule elements{.family = "pointwise",
                          .threads_per_row = 128,
                          .vector_width = 4,
                          .finish = Finish::kLastBlock};
  EXPECT_THAT(reasons(canned_facts("bias_gelu", 64, 512), elements),
              Contains(HasSubstr("the family cannot finish by its last block")));
  const Schedule looped{.family = "looped",
                        .parameters = LoopedParameters{},
                        .threads_per_row = 128,
                        .vector_width = 4,
                        .finish = Finish::kLastBlock};
  EXPECT_THAT(reasons(canned_facts("row_sum", 64, 512), looped),
              Contains(HasSubstr("the family cannot finish by its last block")));
}

TEST(LastBlockTest, ColumnsTakeRoundsWhereThereAreMoreThanThreads) {
  const SegmentFacts facts = canned_facts("layer_norm_backward", 512, 8192);
  const LastBlockGeometry geometry = last_block_geometry(facts, rows_with_last_block_finish());
  EXPECT_EQ(geometry.strips, 1);
  EXPECT_EQ(geometry.columns, 8192);
  EXPECT_EQ(geometry.across, 256);
  EXPECT_EQ(geometry.slots, 1);
  EXPECT_EQ(geometry.rounds(), 8192 / (256 * 4));
}

TEST(LastBlockTest, BlocksOfAClusterFinishTheirColumnsApartUnlessThereAreTotals) {
  Schedule schedule = rows_with_last_block_finish();
  std::get<MultiWaveParameters>(schedule.parameters).cluster_size = 4;
  const LastBlockGeometry apart =
      last_block_geometry(canned_facts("layer_norm_backward", 512, 2048), schedule);
  EXPECT_EQ(apart.strips, 4);
  EXPECT_EQ(apart.columns, 512);
  EXPECT_EQ(apart.rows, 33);
  const LastBlockGeometry together =
      last_block_geometry(canned_facts("dyt_backward", 512, 2048), schedule);
  EXPECT_EQ(together.strips, 1);
  EXPECT_EQ(together.columns, 2048);
}

TEST(LastBlockTest, NarrowColumnsAreFinishedByTheLastBlockAndWideOnesByAKernel) {
  const auto narrow = plan_canned("row_and_total_loss", matrix(17, 4096), "H200");
  ASSERT_TRUE(narrow);
  EXPECT_EQ(narrow->kernels.size(), 1U);
  const Schedule& chosen = narrow->kernels.front().chosen().schedule;
  EXPECT_EQ(chosen.finish, Finish::kLastBlock);
  EXPECT_EQ(chosen.dependent_launch, DependentLaunch::kNone);

  const auto wide = plan_canned("dyt_backward", matrix(8192, 4096), "H200");
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->kernels.size(), 2U);
  for (const auto& planned : {*narrow, *wide}) {
    const auto decision = std::ranges::find(planned.decisions, kWhatFinishes, &Decision::question);
    ASSERT_NE(decision, planned.decisions.end());
    ASSERT_EQ(decision->candidates.size(), 2U);
    const double kernel_us = decision->candidates[0].predicted.total_us;
    const double last_block_us = decision->candidates[1].predicted.total_us;
    const double chosen_us = planned.kernels.front().chosen().predicted.second_stage_us;
    EXPECT_EQ(decision->chosen == "a second kernel", kernel_us <= last_block_us);
    EXPECT_DOUBLE_EQ(chosen_us, std::min(kernel_us, last_block_us));
  }
}

TEST(LastBlockTest, TheWorkspaceHoldsPartialResultsAndCounters) {
  const Plan planned = plan_with_last_block_finish("dyt_backward", 40, 128);
  const Schedule& chosen = planned.kernels.front().chosen().schedule;
  ASSERT_EQ(chosen.finish, Finish::kLastBlock);
  const int64_t rows = partial_rows(chosen);
  std::vector<int64_t> bytes;
  for (const WorkspaceTensor& tensor : planned.workspace) {
    EXPECT_TRUE(tensor.own());
    bytes.push_back(tensor.bytes);
  }
  EXPECT_THAT(bytes, testing::UnorderedElementsAre(rows * 4, rows * 128 * 4, rows * 128 * 4, 4));
  EXPECT_FALSE(planned.workspace.back().value.valid());

  // A reduction whose result is an output has two buffers in one kernel.
  const Plan sums = plan_with_last_block_finish("marginal_sums", 64, 64);
  ASSERT_EQ(sums.kernels.front().chosen().schedule.finish, Finish::kLastBlock);
  const ValueId columns = named_value(sums.fusion, "columns");
  EXPECT_EQ(slot_of(sums, {0}, columns, BufferUse::kReadWrite).kind, TensorSlot::Kind::kWorkspace);
  EXPECT_EQ(slot_of(sums, {0}, columns, BufferUse::kWrite).kind, TensorSlot::Kind::kOutput);
}

TEST(LastBlockTest, AnotherChoiceReplansWhatFinishes) {
  Plan planned = plan_with_last_block_finish("dyt_backward", 40, 128);
  Schedule schedule = planned.kernels.front().chosen().schedule;
  ASSERT_EQ(schedule.finish, Finish::kLastBlock);
  const size_t decisions = planned.decisions.size();
  schedule.finish = Finish::kKernel;
  ASSERT_TRUE(plan_finish(planned, {0}, schedule, scheduling_families()));
  EXPECT_EQ(planned.kernels.size(), 2U);
  EXPECT_EQ(planned.workspace.size(), 3U);
  EXPECT_EQ(planned.decisions.size(), decisions + 1) << "how the second kernel runs";
  schedule.finish = Finish::kLastBlock;
  ASSERT_TRUE(plan_finish(planned, {0}, schedule, scheduling_families()));
  EXPECT_EQ(planned.kernels.size(), 1U);
  EXPECT_EQ(planned.workspace.size(), 4U);
  EXPECT_EQ(planned.decisions.size(), decisions);
}

TEST(LastBlockTest, TakesLongerTheMoreColumnsOneBlockHas) {
  const DeviceLimits limits = *find_device("H200");
  double before = 0.0;
  for (const int64_t columns : {64, 256, 1024, 4096, 16384}) {
    const SegmentFacts facts = canned_facts("rms_norm_backward", 4096, columns);
    const double us = last_block_time(facts, rows_with_last_block_finish(), limits);
    EXPECT_GT(us, before) << columns;
    before = us;
  }
  const CostConstants& constants = kConstants;
  EXPECT_GT(before, second_kernel_time(132.0 * 16384.0 * 4.0, limits));
  // The chain alone, and not much more, for a single number.
  const double total =
      last_block_time(canned_facts("marginal_sums", 132, 8), rows_with_last_block_finish(), limits);
  EXPECT_GT(total, constants.last_block_ns / 1000.0);
  EXPECT_LT(total, 1.5 * constants.last_block_ns / 1000.0);
}

}  // namespace sinter::last_block_test
