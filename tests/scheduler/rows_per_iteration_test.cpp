// Several rows side by side in the groups of a pipeline: which schedules may have them, what they
// take, and when they are offered.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/families/warp_specialised.h"
#include "scheduler/plan/plan.h"
#include "scheduler/report/explain.h"
#include "scheduler/schedule/pipeline.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"

namespace sinter::rows_per_iteration_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RowsPerIterationTest : public testing::Test {
 protected:
  RowsPerIterationTest() {
    for (const ValueId value : facts_.kept) legal_.kept.push_back({value, Residency::kReload});
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
    return estimate_warp_specialised(facts_, schedule, limits_).value();
  }
  [[nodiscard]] Prediction predicted(const Schedule& schedule) const {
    return predict_warp_specialised(facts_, schedule, estimated(schedule), limits_);
  }
  [[nodiscard]] Schedule one_at_a_time() const {
    Schedule out = legal_;
    std::get<WarpSpecialisedParameters>(out.parameters).rows_per_iteration = 1;
    return out;
  }

  const DeviceLimits limits_ = *find_device("H200");
  const FamilySet families_ = scheduling_families();
  const SegmentFacts facts_ = canned_facts("layer_norm_backward", 8192, 1024);
  Schedule legal_{
      .family = "warp_specialised",
      .parameters = WarpSpecialisedParameters{.pipeline_stages = 12, .rows_per_iteration = 2},
      .threads_per_row = 64,
      .rows_per_block = 2,
      .vector_width = 8,
      .persistent_blocks = 132};
};

TEST_F(RowsPerIterationTest, TextNamesThemWhereThereAreSeveral) {
  EXPECT_THAT(print(legal_), HasSubstr("rows_per_iteration 2"));
  EXPECT_EQ(parse_schedule(print(legal_)).value(), legal_);
  EXPECT_EQ(further_numbers(legal_), ", pipeline_stages 12, rows_per_iteration 2");
  EXPECT_THAT(print(one_at_a_time()), Not(HasSubstr("rows_per_iteration")));
  EXPECT_NE(hash_of(one_at_a_time()), hash_of(legal_));
}

TEST_F(RowsPerIterationTest, OneTwoAndFourAreLegal) {
  EXPECT_THAT(reasons(legal_), IsEmpty());
  EXPECT_THAT(reasons(one_at_a_time()), IsEmpty());
  EXPECT_THAT(reasons_with([](Schedule& s) {
                s.parameters =
                    WarpSpecialisedParameters{.pipeline_stages = 8, .rows_per_iteration = 4};
              }),
              IsEmpty());
  EXPECT_THAT(reasons_with([](Schedule& s) {
                std::get<WarpSpecialisedParameters>(s.parameters).cluster_size = 2;
                s.persistent_blocks = 264;
              }),
              IsEmpty());
  for (const int64_t rows : {-1, 0, 3, 8}) {
    EXPECT_THAT(reasons_with([&](Schedule& s) {
                  std::get<WarpSpecialisedParameters>(s.parameters).rows_per_iteration = rows;
                }),
                ElementsAre(AllOf(HasSubstr("1, 2 or 4 rows per iteration"),
                                  HasSubstr(fmt::format("{}", rows)))));
  }
}

// A group that waits for two rows with one slot waits for ever.
TEST_F(RowsPerIterationTest, StagesHoldAsManyRowsForEveryGroup) {
  for (const int64_t stages : {2, 6, 10, 14}) {
    EXPECT_THAT(reasons_with([&](Schedule& s) {
                  std::get<WarpSpecialisedParameters>(s.parameters).pipeline_stages = stages;
                }),
                ElementsAre(AllOf(HasSubstr("has more rows than its stages hold"),
                                  HasSubstr("value 2"), HasSubstr("a multiple of 4 stages"))))
        << stages;
  }
  // The proof takes its time.
  EXPECT_THAT(reasons_with([&](Schedule& s) {
                std::get<WarpSpecialisedParameters>(s.parameters).pipeline_stages = 32;
              }),
              IsEmpty());
  EXPECT_THAT(reasons_with([&](Schedule& s) {
                std::get<WarpSpecialisedParameters>(s.parameters).pipeline_stages = 36;
              }),
              ElementsAre(HasSubstr("limit 32 stages")));
  EXPECT_EQ(pipeline_slots(legal_), 6);
}

// Two sums of f32 in two rounds by 4 warps: 2 * 2 * 4 * 4 bytes for each row, of two rows and of
// the row that is left over. A pair of mbarriers for each slot.
TEST_F(RowsPerIterationTest, TakeAnExchangeForEachRowAndFewerMbarriers) {
  const int64_t exchange = 2 * 2 * 4 * 4;
  EXPECT_EQ(estimated(legal_).shared_bytes - estimated(one_at_a_time()).shared_bytes,
            2 * exchange - 2 * 6 * 8);
}

TEST_F(RowsPerIterationTest, TakeRegistersForEachRow) {
  const auto registers = [&](int64_t rows, Residency residency) {
    Schedule schedule = legal_;
    schedule.parameters =
        WarpSpecialisedParameters{.pipeline_stages = 8, .rows_per_iteration = rows};
    for (KeptValue& kept : schedule.kept) kept.residency = residency;
    return estimated(schedule).registers;
  };
  const auto grows = [&](Residency residency) {
    const int64_t second = registers(2, residency) - registers(1, residency);
    const int64_t both = registers(4, residency) - registers(2, residency);
    EXPECT_GT(second, 0);
    EXPECT_GT(both, 0);
    return both / 2;
  };
  // Two inputs of 16 packed elements.
  EXPECT_GE(grows(Residency::kRegister) - grows(Residency::kReload), 16);
}

TEST_F(RowsPerIterationTest, WaitForOneExchange) {
  const CostConstants& constants = kConstants;
  const double exchange_us = (constants.pipeline_row_ns + 2 * constants.pipeline_warp_ns) / 1000.0;
  const double alone_us = predicted(one_at_a_time()).block_latency_us;
  // Neither is squeezed.
  EXPECT_NEAR(predicted(legal_).block_latency_us, 2 * alone_us - exchange_us, 1e-9);
}

TEST_F(RowsPerIterationTest, HoldSlotsThatAreNotInFlightMeanwhile) {
  Schedule tight = legal_;
  std::get<WarpSpecialisedParameters>(tight.parameters).pipeline_stages = 4;
  Schedule alone = tight;
  std::get<WarpSpecialisedParameters>(alone.parameters).rows_per_iteration = 1;
  EXPECT_GT(predicted(tight).memory_us, predicted(alone).memory_us);
}

// Rows that make no whole round of all groups take the time of one that does, or follow each other.
TEST_F(RowsPerIterationTest, TheLastRoundIsNoShorter) {
  const auto time = [&](int64_t rows) {
    const SegmentFacts facts = canned_facts("layer_norm_backward", rows, 1024);
    Schedule schedule = legal_;
    schedule.parameters = WarpSpecialisedParameters{.pipeline_stages = 32, .rows_per_iteration = 4};
    schedule.persistent_blocks = 1;
    const auto estimate = estimate_warp_specialised(facts, schedule, limits_).value();
    const Prediction p = predict_warp_specialised(facts, schedule, estimate, limits_);
    return p.exposed_us;
  };
  // One more item keeps one of two groups, at the price of a round of both.
  EXPECT_GT(time(44) - time(40), 2.0 * (time(48) - time(44)));
}

TEST_F(RowsPerIterationTest, AreOfferedWhereWaitsAreTheBound) {
  const auto offered = [&](const SegmentFacts& facts) {
    int64_t count = 0;
    double alone = 1e9;
    double together = 1e9;
    for (const ProposedSchedule& ring : propose_warp_specialised(facts, limits_).candidates) {
      const bool side = ring.schedule.rows_per_iteration() > 1;
      double& best = side ? together : alone;
      best = std::min(best, ring.predicted.total_us);
      if (!side) continue;
      ++count;
      EXPECT_THAT(verify_schedule(facts, ring.schedule, limits_, families_), IsEmpty());
      EXPECT_EQ(ring.estimate.spilled_registers, 0);
    }
    if (count > 0) {
      EXPECT_LT(together, alone);
    }
    return count;
  };
  EXPECT_GT(offered(canned_facts("layer_norm_backward", 2048, 512)), 0);
  // Memory is the bound.
  EXPECT_EQ(offered(canned_facts("layer_norm_backward", 16384, 8192)), 0);
  // Rows wait for no exchange.
  EXPECT_EQ(offered(canned_facts("dyt_backward", 2048, 512)), 0);
}

TEST_F(RowsPerIterationTest, ExplainSaysSo) {
  const Plan plan = plan_canned("layer_norm_backward", matrix(8192, 1024), "H200",
                                {.families = families_, .pin = {.schedule = legal_}})
                        .value();
  EXPECT_THAT(explain(plan), HasSubstr("rows_per_iteration"));
}

}  // namespace sinter::rows_per_iteration_test
