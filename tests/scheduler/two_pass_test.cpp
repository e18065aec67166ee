// Rows that looped blocks take in tiles: which schedules may, what they do and cost, and when they
// are chosen.

#include "scheduler/schedule/two_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/looped.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/report/explain.h"
#include "scheduler/report/sweep.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/shared_memory.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"

namespace sinter::two_pass_test {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class TwoPassTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> reasons(const Schedule& schedule) const {
    return reasons(facts_, schedule);
  }
  [[nodiscard]] std::vector<std::string> reasons(const SegmentFacts& facts,
                                                 const Schedule& schedule) const {
    return reasons_against(schedule, facts, limits_);
  }
  /// What is said about the legal schedule with a change.
  template <class Change>
  [[nodiscard]] std::vector<std::string> reasons_with(const Change& change) const {
    Schedule schedule = legal_;
    change(schedule);
    return reasons(schedule);
  }

  const DeviceLimits limits_ = *find_device("H200");
  const SegmentFacts facts_ = canned_facts("layer_norm_backward", 8192, 32768);
  Schedule legal_{.family = "looped",
                  .parameters = LoopedParameters{.rows_per_tile = 10},
                  .threads_per_row = 256,
                  .vector_width = 8,
                  .min_blocks_per_sm = 2,
                  .persistent_blocks = 256};
};

TEST_F(TwoPassTest, TextNamesThemWhereThereAreAny) {
  EXPECT_THAT(print(legal_), HasSubstr("rows_per_tile 10"));
  EXPECT_EQ(parse_schedule(print(legal_)).value(), legal_);
  EXPECT_EQ(further_numbers(legal_), ", rows_per_tile 10");
  Schedule without = legal_;
  std::get<LoopedParameters>(without.parameters).rows_per_tile = 0;
  EXPECT_NE(hash_of(without), hash_of(legal_));
  EXPECT_THAT(print(without), Not(HasSubstr("rows_per_tile")));
}

TEST_F(TwoPassTest, RowsAreReducedFirstAndGoneThroughAgain) {
  const StageList list = distribute_two_pass(facts_);
  ASSERT_EQ(list.stages.size(), 2U);
  EXPECT_EQ(list.stages[0].reductions.size(), 2U);
  EXPECT_THAT(list.stages[0].outer, IsEmpty());
  EXPECT_THAT(list.stages[0].outputs, IsEmpty());
  EXPECT_THAT(list.stages[1].reductions, IsEmpty());
  EXPECT_EQ(list.stages[1].outer.size(), 2U);
  EXPECT_THAT(list.stages[1].outputs, ElementsAre(0U));
  EXPECT_EQ(list.tile_row_values.size(), 4U) << "mean, rstd and two means of the row";
  for (const ValueId value : list.tile_row_values) EXPECT_FALSE(facts_.is_tile(value));
  EXPECT_TRUE(std::ranges::is_sorted(list.tile_row_values));
  EXPECT_EQ(stages_of(facts_, legal_), list);
}

TEST_F(TwoPassTest, WithoutInnerReductionsNothingWaits) {
  const StageList list = distribute_two_pass(canned_facts("dyt_backward", 64, 1024));
  ASSERT_EQ(list.stages.size(), 1U);
  EXPECT_EQ(list.stages[0].outer.size(), 3U);
  EXPECT_THAT(list.tile_row_values, IsEmpty());
}

TEST_F(TwoPassTest, TotalsAloneAreTakenWhileRowsAreReduced) {
  FusionBuilder b("marginals");
  const ValueId x = b.input(DType::kF32, {64, 1024}, "x");
  b.output(b.sum(x, {1}), "rows");
  b.output(b.sum(b.mul(x, x), {0, 1}), "all");
  const SegmentFacts facts = facts_of(b.build(), {});
  const StageList list = distribute_two_pass(facts);
  ASSERT_EQ(list.stages.size(), 2U);
  EXPECT_EQ(list.stages[0].outer.size(), 1U);
  EXPECT_THAT(list.stages[1].loads, IsEmpty());
  EXPECT_EQ(distribute_two_pass(canned_facts("marginal_sums", 64, 1024)).stages[1].outer.size(), 2U)
      << "columns are gone through anyway";
}

// 8192 rows over 256 blocks are 32 each.
TEST_F(TwoPassTest, ABlocksRowsAreItsTiles) {
  EXPECT_THAT(reasons(legal_), IsEmpty());
  EXPECT_EQ(rows_of_block(facts_, legal_), 32);
  EXPECT_EQ(row_tile_count(facts_, legal_), 4);
  Schedule schedule = legal_;
  std::get<LoopedParameters>(schedule.parameters).rows_per_tile = 32;
  EXPECT_EQ(row_tile_count(facts_, schedule), 1);
  std::get<LoopedParameters>(schedule.parameters).cluster_size = 8;
  EXPECT_EQ(rows_of_block(facts_, schedule), 256);
  EXPECT_EQ(row_tile_count(facts_, schedule), 8);
  EXPECT_EQ(row_tile_count(canned_facts("layer_norm_backward", 0, 64), legal_), 1)
      << "which leaves partial results of nothing";
}

TEST_F(TwoPassTest, AccumulatorsAreThoseOfAChunk) {
  EXPECT_EQ(batch_count(facts_, legal_), 16);
  EXPECT_EQ(held_batches(facts_, legal_), 1);
  Schedule schedule = legal_;
  schedule.unroll = 4;
  EXPECT_EQ(held_batches(facts_, schedule), 4);
  std::get<LoopedParameters>(schedule.parameters).rows_per_tile = 0;
  EXPECT_EQ(held_batches(facts_, schedule), 16);
}

// Four f32 values of ten rows, in units of 16 bytes, and the halves of two sums of eight warps.
TEST_F(TwoPassTest, RowValuesOfATileWaitInSharedMemory) {
  EXPECT_EQ(row_shared_bytes(facts_, legal_), 4 * 48 + 2 * 2 * 8 * 4);
  EXPECT_EQ(estimate_looped(facts_, legal_, limits_)->shared_bytes,
            row_shared_bytes(facts_, legal_));
}

TEST_F(TwoPassTest, NumbersThatMakeNoTilesAreRefused) {
  for (const int64_t rows : {-1, 0, 8193}) {
    EXPECT_THAT(
        reasons_with(
            [&](Schedule& s) { std::get<LoopedParameters>(s.parameters).rows_per_tile = rows; }),
        ElementsAre(AllOf(HasSubstr("no rows, or more than there are"),
                          HasSubstr(fmt::format("value {}", rows)), HasSubstr("limit 8192"))));
  }
  EXPECT_THAT(reasons_with([](Schedule& s) { s.rows_per_block = 2; }),
              ElementsAre(HasSubstr("one after the other")));
  EXPECT_THAT(reasons_with([](Schedule& s) {
                std::get<LoopedParameters>(s.parameters).rows_per_tile = 8192;
              }),
              IsEmpty());
  EXPECT_THAT(reasons_with([](Schedule& s) { s.unroll = 16; }),
              ElementsAre(HasSubstr("accumulates of a chunk exceeds its registers")));
  EXPECT_THAT(reasons_with([](Schedule& s) { s.persistent_blocks = 0; }),
              ElementsAre(HasSubstr("which walks none")));
  EXPECT_THAT(reasons_with([&](Schedule& s) { s.kept = {{facts_.kept.front()}}; }),
              ElementsAre(HasSubstr("keeps nothing resident")));
}

TEST_F(TwoPassTest, MoreRowsThanSharedMemoryHoldsAreRefused) {
  const SegmentFacts facts = canned_facts("layer_norm_backward", 1 << 20, 64);
  Schedule schedule = legal_;
  std::get<LoopedParameters>(schedule.parameters).rows_per_tile = 14000;
  EXPECT_THAT(reasons(facts, schedule), IsEmpty());
  std::get<LoopedParameters>(schedule.parameters).rows_per_tile = 15000;
  EXPECT_THAT(reasons(facts, schedule), ElementsAre(HasSubstr("more shared memory")));
}

TEST_F(TwoPassTest, SegmentsWithoutReductionsOverRowsRefuseThem) {
  EXPECT_THAT(reasons(canned_facts("softmax", 8192, 4096), legal_),
              ElementsAre(HasSubstr("only reductions over the rows take two passes")));
}

TEST_F(TwoPassTest, TuplesAreRefusedAsPartialResults) {
  EXPECT_THAT(plan_canned("batch_norm_statistics", matrix(64, 256), "H200"),
              RejectedBy("looped", HasSubstr("single values, not tuples")));
}

// 2 inputs of a vector of 8 bf16, packed.
TEST_F(TwoPassTest, ARowAheadTakesItsWordsAndHidesItsWay) {
  Schedule ahead = legal_;
  std::get<LoopedParameters>(ahead.parameters).prefetch_rows = 1;
  EXPECT_THAT(reasons(ahead), IsEmpty());
  EXPECT_EQ(prefetched_inputs(facts_, ahead).size(), 2U);
  EXPECT_EQ(prefetched_words(facts_, ahead), 2 * 4);
  const ResourceEstimate estimate = estimate_looped(facts_, ahead, limits_).value();
  const ResourceEstimate without = estimate_looped(facts_, legal_, limits_).value();
  EXPECT_EQ(estimate.registers, without.registers + 8);
  EXPECT_LT(predict_looped(facts_, ahead, estimate, limits_).block_latency_us,
            predict_looped(facts_, legal_, without, limits_).block_latency_us);
  const SegmentFacts loss = canned_facts("row_and_total_loss", 64, 1024);
  Schedule nothing_again = ahead;
  nothing_again.persistent_blocks = 8;
  EXPECT_THAT(reasons(loss, nothing_again), ElementsAre(HasSubstr("none can be prefetched")));
  std::get<LoopedParameters>(ahead.parameters).prefetch_rows = 2;
  EXPECT_THAT(reasons(ahead), ElementsAre(HasSubstr("the row at hand and the one after it")));
}

TEST_F(TwoPassTest, WhatIsOfferedIsLegal) {
  for (const char* name : {"layer_norm_backward", "dyt_backward", "softmax_backward_bias"}) {
    for (const auto& extents : {matrix(0, 64), matrix(17, 1543), matrix(131, 65536),
                                matrix(8192, 4096), matrix(512, 1 << 20)}) {
      const SegmentFacts facts = facts_of(find_canned_fusion(name)->build(), extents);
      const Proposal proposal = propose_looped(facts, limits_);
      EXPECT_THAT(proposal.rejections, IsEmpty());
      EXPECT_GT(proposal.candidates.size(), 0U);
      EXPECT_LE(proposal.candidates.size(), 100U);
      for (const ProposedSchedule& candidate : proposal.candidates) {
        EXPECT_THAT(reasons(facts, candidate.schedule), IsEmpty());
        EXPECT_EQ(candidate.predicted,
                  predict_looped(facts, candidate.schedule, candidate.estimate, limits_));
      }
    }
  }
}

// Where only totals are left, blocks that pass are as good as those that stay, and rows that are no
// multiple of a vector are read in vectors all the same.
TEST_F(TwoPassTest, TotalsAreOfferedABlockForEveryRow) {
  for (const auto& [columns, access] :
       {std::pair(32768, RowAccess::kAligned), {50257, RowAccess::kUnaligned}}) {
    const SegmentFacts facts = canned_facts("row_and_total_loss", 4096, columns);
    const Proposal proposal = propose_looped(facts, limits_);
    int64_t non_persistent = 0;
    for (const ProposedSchedule& candidate : proposal.candidates) {
      const Schedule& schedule = candidate.schedule;
      EXPECT_THAT(reasons(facts, schedule), IsEmpty());
      EXPECT_EQ(schedule.cluster_size(), 1) << "no SM is idle, and no column is accumulated";
      EXPECT_EQ(candidate.predicted, predict_looped(facts, schedule, candidate.estimate, limits_));
      if (schedule.row_access != access || !is_non_persistent(facts, schedule)) continue;
      EXPECT_EQ(schedule.persistent_blocks, 4096);
      EXPECT_EQ(candidate.estimate.blocks, 4096);
      ++non_persistent;
    }
    EXPECT_GT(non_persistent, 15) << columns;
  }
}

TEST_F(TwoPassTest, BlocksPassThatHaveOneRowAndNoColumnsToWalk) {
  const SegmentFacts loss = canned_facts("row_and_total_loss", 64, 1024);
  Schedule schedule = legal_;
  std::get<LoopedParameters>(schedule.parameters).rows_per_tile = 1;
  schedule.persistent_blocks = 64;
  EXPECT_TRUE(is_non_persistent(loss, schedule));
  EXPECT_FALSE(is_non_persistent(canned_facts("marginal_sums", 64, 1024), schedule));
  schedule.persistent_blocks = 63;
  EXPECT_FALSE(is_non_persistent(loss, schedule));
  EXPECT_TRUE(is_non_persistent(canned_facts("rms_norm", 64, 1024),
                                {.family = "looped", .parameters = LoopedParameters{}}));
}

TEST_F(TwoPassTest, RowsThatLeaveSMsIdleAreShared) {
  const SegmentFacts facts = canned_facts("layer_norm_backward", 16, 262144);
  const Proposal proposal = propose_looped(facts, limits_);
  const auto best = std::ranges::min_element(
      proposal.candidates, {},
      [](const ProposedSchedule& candidate) { return candidate.predicted.total_us; });
  EXPECT_EQ(best->schedule.cluster_size(), 8);
  for (const ProposedSchedule& candidate : propose_looped(facts, *find_device("A100")).candidates)
    EXPECT_EQ(candidate.schedule.cluster_size(), 1);
}

// Its rows have no statistics, and its accumulators no room in the registers of an A100 or L4.
TEST_F(TwoPassTest, WideGradientsOfTanhHaveAPlanEverywhere) {
  for (const DeviceLimits& device : device_presets()) {
    for (const int64_t columns : {65536, 65537, 1 << 20}) {
      const auto planned = plan_canned("dyt_backward", matrix(512, columns), device.name,
                                       {.cutting = Cutting::kNeeded});
      ASSERT_TRUE(planned) << device.name << planned.error().text();
      EXPECT_EQ(planned->kernels.size(), 2U);
    }
  }
  for (const char* device : {"A100", "L4"}) {
    EXPECT_EQ(kind_of(*plan_canned("dyt_backward", matrix(512, 65536), device,
                                   {.cutting = Cutting::kNeeded})),
              "looped");
  }
}

TEST_F(TwoPassTest, OnePassIsWeighedAgainstAKernelEach) {
  for (const auto& [rows, chosen] : {std::pair(16, "a kernel each"), {4096, "one pass"}}) {
    const Plan planned = plan_canned("layer_norm_backward", matrix(rows, 1 << 20), "H200").value();
    EXPECT_EQ(planned.decisions.front().question, "do rows and columns share one pass over memory");
    EXPECT_EQ(planned.decisions.front().chosen, chosen);
  }
}

TEST_F(TwoPassTest, ExplainShowsThemBesideTheOtherKinds) {
  const Plan plan = plan_canned("layer_norm_backward", matrix(8192, 4096), "H200").value();
  EXPECT_THAT(explain(plan),
              AllOf(ContainsRegex("multi_wave +looped"), HasSubstr("rows_per_tile")));
}

}  // namespace sinter::two_pass_test
