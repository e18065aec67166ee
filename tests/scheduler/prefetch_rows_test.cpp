// Rows that come ahead of their turn: which schedules may have them, what they take, and when they
// are offered.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/multi_wave.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/plan/plan.h"
#include "scheduler/report/explain.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"

namespace sinter::prefetch_rows_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class PrefetchRowsTest : public testing::Test {
 protected:
  PrefetchRowsTest() {
    for (const ValueId value : facts_.kept) legal_.kept.push_back({value});
  }

  [[nodiscard]] std::vector<std::string> reasons(const Schedule& schedule) const {
    return reasons_against(schedule, facts_, limits_);
  }
  /// What is said about the legal schedule with a change.
  template <class Change>
  [[nodiscard]] std::vector<std::string> reasons_with(const Change& change) const {
    Schedule schedule = legal_;
    change(schedule);
    return reasons(schedule);
  }
  [[nodiscard]] ResourceEstimate estimated(const Schedule& schedule) const {
    return estimate_multi_wave(facts_, schedule, limits_).value();
  }

  const DeviceLimits limits_ = *find_device("H200");
  const FamilySet families_ = scheduling_families();
  const SegmentFacts facts_ = canned_facts("layer_norm_backward", 8192, 4096);
  Schedule legal_{.family = "multi_wave",
                  .parameters = MultiWaveParameters{.prefetch_rows = 1},
                  .threads_per_row = 256,
                  .vector_width = 8,
                  .persistent_blocks = 132};
};

TEST_F(PrefetchRowsTest, TextNamesThemWhereThereAreAny) {
  EXPECT_THAT(print(legal_), HasSubstr("prefetch_rows 1"));
  EXPECT_EQ(parse_schedule(print(legal_)).value(), legal_);
  EXPECT_EQ(further_numbers(legal_), ", prefetch_rows 1");
  Schedule without = legal_;
  std::get<MultiWaveParameters>(without.parameters).prefetch_rows = 0;
  EXPECT_NE(hash_of(without), hash_of(legal_));
  EXPECT_THAT(print(without), Not(HasSubstr("prefetch_rows")));
  EXPECT_EQ(further_numbers(without), "");
}

TEST_F(PrefetchRowsTest, PersistentBlocksThatKeepRowsInRegistersMayHaveThem) {
  EXPECT_THAT(reasons(legal_), IsEmpty());
  EXPECT_EQ(prefetched_inputs(facts_, legal_), facts_.kept);
  EXPECT_THAT(reasons_with([](Schedule& s) {
                std::get<MultiWaveParameters>(s.parameters).cluster_size = 2;
                s.threads_per_row = 128;
              }),
              IsEmpty());
}

TEST_F(PrefetchRowsTest, OtherSchedulesAreRefusedWithTheNumber) {
  for (const int64_t rows : {-1, 2, 7}) {
    EXPECT_THAT(reasons_with([&](Schedule& s) {
                  std::get<MultiWaveParameters>(s.parameters).prefetch_rows = rows;
                }),
                ElementsAre(AllOf(HasSubstr("the row at hand and the one after it"),
                                  HasSubstr(fmt::format("{}", rows)))));
  }
  EXPECT_THAT(reasons_with([](Schedule& s) {
                for (KeptValue& kept : s.kept) kept.residency = Residency::kShared;
              }),
              ElementsAre(HasSubstr("no input of the row is kept in registers")));
}

TEST_F(PrefetchRowsTest, BlocksWithoutAFollowingRowAreRefused) {
  const SegmentFacts facts = canned_facts("softmax", 64, 4096);
  Schedule schedule = legal_;
  schedule.kept.clear();
  for (const ValueId value : facts.kept) schedule.kept.push_back({value});
  const auto rejections = [&] { return verify_schedule(facts, schedule, limits_, families_); };
  EXPECT_THAT(rejections(), IsEmpty()) << "blocks may walk rows where nothing accumulates";
  schedule.persistent_blocks = 0;
  ASSERT_EQ(rejections().size(), 1U);
  EXPECT_EQ(rejections()[0].unit, "persistent blocks");
}

TEST_F(PrefetchRowsTest, ColumnsAreNotKeptWhereRowsAreShifted) {
  const SegmentFacts facts = canned_facts("layer_norm", 64, 1001);
  const ValueId weight = facts.fusion.inputs[1];
  ASSERT_FALSE(facts.is_full(weight));
  Schedule schedule = legal_;
  schedule.row_access = RowAccess::kUnaligned;
  schedule.kept = {{facts.fusion.inputs[0]}, {weight}};
  const auto rejections = verify_schedule(facts, schedule, limits_, families_);
  ASSERT_EQ(rejections.size(), 1U);
  EXPECT_THAT(text_of(rejections[0]), HasSubstr("other columns in every row"));
  EXPECT_EQ(rejections[0].at, weight);
  schedule.kept.pop_back();
  EXPECT_THAT(verify_schedule(facts, schedule, limits_, families_), IsEmpty());
}

// 2 inputs of 2 vectors of 8 bf16, packed, and two f32 row values.
TEST_F(PrefetchRowsTest, ASecondRowTakesItsWordsInRegisters) {
  EXPECT_EQ(prefetched_words(facts_, legal_), 2 * 2 * 4 + 2);
  Schedule without = legal_;
  std::get<MultiWaveParameters>(without.parameters).prefetch_rows = 0;
  EXPECT_EQ(prefetched_words(facts_, without), 0);
  EXPECT_EQ(estimated(legal_).registers, estimated(without).registers + 18);
  EXPECT_EQ(estimated(legal_).shared_bytes, estimated(without).shared_bytes);
}

TEST_F(PrefetchRowsTest, ARowIsWaitedForBesideTheOneBeforeIt) {
  Schedule without = legal_;
  std::get<MultiWaveParameters>(without.parameters).prefetch_rows = 0;
  const auto latency = [&](const Schedule& schedule) {
    return predict_rows(facts_, schedule, estimated(schedule), limits_).block_latency_us * 1000.0;
  };
  const CostConstants& constants = kConstants;
  const double arrival = constants.row.block_start_ns + constants.row.first_load_ns;
  const double rest = latency(without) - arrival;
  const double rounds =
      static_cast<double>(facts_.space.rows) / static_cast<double>(rows_at_once(legal_));
  ASSERT_GT(rounds, 1.0);
  // Nothing hides the way of the first row.
  EXPECT_NEAR(latency(legal_), (arrival + rest + (rounds - 1.0) * std::max(arrival, rest)) / rounds,
              1e-9);
}

TEST_F(PrefetchRowsTest, AreOfferedForGradientsThatAreNotRegisterLimited) {
  for (const int64_t columns : {1544, 2048, 4096, 8184}) {
    const SegmentFacts facts = canned_facts("rms_norm_backward", 8192, columns);
    int64_t offered = 0;
    for (const ProposedSchedule& candidate : propose_multi_wave(facts, limits_).candidates) {
      if (candidate.schedule.prefetch_rows() == 0) continue;
      ++offered;
      EXPECT_THAT(verify_schedule(facts, candidate.schedule, limits_, families_), IsEmpty());
      EXPECT_EQ(candidate.estimate.spilled_registers, 0);
    }
    EXPECT_GT(offered, 0) << columns;
    EXPECT_LE(offered, 4) << columns;
  }
}

TEST_F(PrefetchRowsTest, AreNotOfferedWhereElementsComeOneByOneOrRowsAreNotWalked) {
  for (const SegmentFacts& facts :
       {canned_facts("rms_norm_backward", 8192, 4095), canned_facts("rms_norm", 8192, 4096)}) {
    for (const ProposedSchedule& candidate : propose_multi_wave(facts, limits_).candidates)
      EXPECT_EQ(candidate.schedule.prefetch_rows(), 0) << facts.fusion.name;
  }
}

TEST_F(PrefetchRowsTest, ExplainSaysSo) {
  const Plan plan = plan_canned("layer_norm_backward", matrix(8192, 4096), "H200",
                                {.families = families_, .pin = {.schedule = legal_}})
                        .value();
  EXPECT_THAT(explain(plan),
              AllOf(HasSubstr("prefetch_rows 1"), HasSubstr("2 in register, 1 row prefetched")));
}

}  // namespace sinter::prefetch_rows_test
