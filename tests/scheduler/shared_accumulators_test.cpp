// Accumulators of columns in shared memory: which schedules may have them there, what they take,
// and when they are offered and chosen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/multi_wave.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/families/warp_specialised.h"
#include "scheduler/report/explain.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/pipeline.h"
#include "scheduler/schedule/row_schedule.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/plan_matchers.h"

namespace sinter::shared_accumulators_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SharedAccumulatorsTest : public testing::Test {
 protected:
  SharedAccumulatorsTest() {
    for (const ValueId value : facts_.kept) legal_.kept.push_back({value});
  }

  [[nodiscard]] std::vector<std::string> reasons(const Schedule& schedule,
                                                 const SegmentFacts& facts) const {
    return reasons_against(schedule, facts, limits_);
  }
  /// What is said about the legal schedule with a change.
  template <class Change>
  [[nodiscard]] std::vector<std::string> reasons_with(const Change& change) const {
    return reasons(with(change), facts_);
  }
  template <class Change>
  [[nodiscard]] Schedule with(const Change& change) const {
    Schedule schedule = legal_;
    change(schedule);
    return schedule;
  }
  [[nodiscard]] ResourceEstimate estimated(const Schedule& schedule) const {
    return estimate_multi_wave(facts_, schedule, limits_).value();
  }
  [[nodiscard]] Schedule in_registers() const {
    return with([](Schedule& s) {
      std::get<MultiWaveParameters>(s.parameters).accumulators = Residency::kRegister;
    });
  }

  const DeviceLimits limits_ = *find_device("H200");
  const FamilySet families_ = scheduling_families();
  const SegmentFacts facts_ = canned_facts("layer_norm_backward", 8192, 8192);
  Schedule legal_{.family = "multi_wave",
                  .parameters = MultiWaveParameters{.accumulators = Residency::kShared},
                  .threads_per_row = 512,
                  .vector_width = 8,
                  .persistent_blocks = 132};
};

TEST_F(SharedAccumulatorsTest, TextNamesThemWhereTheyAreNotInRegisters) {
  EXPECT_THAT(print(legal_), HasSubstr("  accumulators shared\n"));
  EXPECT_EQ(parse_schedule(print(legal_)).value(), legal_);
  EXPECT_EQ(further_numbers(legal_), ", accumulators shared");
  EXPECT_THAT(print(in_registers()), Not(HasSubstr("accumulators")));
  EXPECT_NE(hash_of(in_registers()), hash_of(legal_));
  EXPECT_THAT(parse_schedule("schedule multi_wave { accumulators shared accumulators register }")
                  .error()
                  .message,
              HasSubstr("given twice"));
  EXPECT_THAT(parse_schedule("schedule multi_wave { accumulators here }").error().message,
              HasSubstr("expected one of 'register', 'shared', 'reload'"));
}

TEST_F(SharedAccumulatorsTest, BlocksThatWalkRowsMayHaveThem) {
  EXPECT_THAT(reasons(legal_, facts_), IsEmpty());
  EXPECT_THAT(reasons_with([](Schedule& s) {
                std::get<MultiWaveParameters>(s.parameters).cluster_size = 2;
              }),
              IsEmpty());
  EXPECT_THAT(reasons_with([](Schedule& s) {
                std::get<MultiWaveParameters>(s.parameters).prefetch_rows = 1;
              }),
              IsEmpty());
  EXPECT_THAT(reasons_with([](Schedule& s) {
                s.threads_per_row = 256;
                s.rows_per_block = 2;
              }),
              IsEmpty());
  EXPECT_THAT(reasons_with([](Schedule& s) {
                s.family = "warp_specialised";
                s.parameters = WarpSpecialisedParameters{.pipeline_stages = 2,
                                                         .accumulators = Residency::kShared};
              }),
              IsEmpty());
}

TEST_F(SharedAccumulatorsTest, OtherSchedulesAreRefused) {
  EXPECT_THAT(reasons_with([](Schedule& s) {
                std::get<MultiWaveParameters>(s.parameters).accumulators = Residency::kReload;
              }),
              ElementsAre(HasSubstr("nothing can be read again")));
  EXPECT_THAT(reasons_with([](Schedule& s) {
                s.threads_per_row = 256;
                s.rows_per_block = 4;
              }),
              ElementsAre(AllOf(HasSubstr("more shared memory than the device offers"),
                                HasSubstr("limit 232448 bytes"))))
      << "each row slot has its own";
  const Schedule forward{.family = "multi_wave",
                         .parameters = MultiWaveParameters{.accumulators = Residency::kShared},
                         .threads_per_row = 128,
                         .vector_width = 8};
  EXPECT_THAT(reasons(forward, canned_facts("rms_norm", 64, 1024)),
              ElementsAre(HasSubstr("no outer reduction accumulates columns")));
}

// Partial results are single values, whatever holds the accumulators.
TEST_F(SharedAccumulatorsTest, TuplesAreRefusedAsInRegisters) {
  Schedule schedule = legal_;
  schedule.kept.clear();
  for (const CannedFusion& canned : canned_fusions()) {
    const Fusion fusion = canned.build();
    const auto facts = analyse(simplify(specialize(fusion, *bind_extents(fusion, canned.small))));
    if (!facts || !facts->has_outer()) continue;
    const bool has_tuple = std::ranges::any_of(facts->outer_reductions, [&](OpId id) {
      return exchange_types(facts->fusion, facts->fusion.ops[id]).size() > 1;
    });
    if (!has_tuple) continue;
    EXPECT_THAT(reasons(schedule, *facts), testing::Not(IsEmpty())) << canned.name;
  }
}

TEST_F(SharedAccumulatorsTest, SharedBytesAreATupleForEveryColumnOfEverySlot) {
  // Two f32 sums of 8192 columns.
  EXPECT_EQ(accumulator_column_bytes(facts_), 8);
  EXPECT_EQ(accumulator_shared_bytes(facts_, legal_), 8192 * 8);
  EXPECT_EQ(accumulator_shared_bytes(facts_, in_registers()), 0);
  EXPECT_EQ(estimated(legal_).shared_bytes, estimated(in_registers()).shared_bytes + 8192 * 8);
  const Schedule slots = with([](Schedule& s) {
    s.threads_per_row = 256;
    s.rows_per_block = 2;
  });
  EXPECT_EQ(accumulator_shared_bytes(facts_, slots), 2 * 8192 * 8);
  EXPECT_EQ(slot_exchange_bytes(facts_, slots), 0) << "slots combine where they accumulated";
  const Schedule halves =
      with([](Schedule& s) { std::get<MultiWaveParameters>(s.parameters).cluster_size = 2; });
  EXPECT_EQ(accumulator_shared_bytes(facts_, halves), 8192 / 2 * 8);
  // Columns that no thread has are there too: 3 batches of 4096.
  const SegmentFacts odd = canned_facts("layer_norm_backward", 64, 8200);
  EXPECT_EQ(accumulator_shared_bytes(odd, legal_), 3 * 4096 * 8);
}

TEST_F(SharedAccumulatorsTest, PipelinesHaveThemBesideTheirStages) {
  Schedule ring = legal_;
  ring.family = "warp_specialised";
  ring.parameters =
      WarpSpecialisedParameters{.pipeline_stages = 2, .accumulators = Residency::kShared};
  Schedule without = ring;
  without.parameters = WarpSpecialisedParameters{.pipeline_stages = 2};
  const StageList list = distribute(facts_, ring.kept);
  EXPECT_EQ(pipeline_shared_bytes(facts_, ring, list),
            pipeline_shared_bytes(facts_, without, list) + 8192 * 8);
}

TEST_F(SharedAccumulatorsTest, RowsThatRegistersDoNotHoldAreLoops) {
  EXPECT_TRUE(unrolls_batches(facts_, legal_)) << "the row is in registers";
  const Schedule loops = with([](Schedule& s) { s.kept.clear(); });
  EXPECT_FALSE(unrolls_batches(facts_, loops));
  Schedule unrolled = loops;
  std::get<MultiWaveParameters>(unrolled.parameters).accumulators = Residency::kRegister;
  EXPECT_TRUE(unrolls_batches(facts_, unrolled));
  // Loops take as many registers however long the row is.
  const SegmentFacts longer = canned_facts("layer_norm_backward", 8192, 16384);
  const StageList list = distribute(facts_, {});
  EXPECT_EQ(estimate_registers(facts_, loops, list), estimate_registers(longer, loops, list));
  EXPECT_LT(estimate_registers(facts_, unrolled, list), estimate_registers(longer, unrolled, list));
}

TEST_F(SharedAccumulatorsTest, WhatIsReadAheadGivesWayToTheCap) {
  const Schedule wide = with([](Schedule& s) { s.threads_per_row = 1024; });
  const StageList list = distribute(facts_, wide.kept);
  // One batch: nothing comes after it.
  EXPECT_EQ(estimate_prefetch_registers(facts_, wide), 0);
  const Schedule narrow = with([](Schedule& s) { s.threads_per_row = 256; });
  const int64_t ahead = estimate_prefetch_registers(facts_, narrow);
  EXPECT_GT(ahead, 0);
  const int64_t free = estimate_registers(facts_, narrow, list);
  EXPECT_EQ(registers_under_cap(free, ahead, 255), free);
  EXPECT_EQ(registers_under_cap(free, ahead, free - 1), free - 1);
  EXPECT_EQ(registers_under_cap(free, ahead, 8), free - ahead);
  EXPECT_EQ(estimate_prefetch_registers(facts_, in_registers()), 0);
}

TEST_F(SharedAccumulatorsTest, EveryElementIsReadAndWrittenInEveryRow) {
  const StageList list = distribute(facts_, legal_.kept);
  const auto work = [&](const Schedule& schedule) {
    return estimate_row_work(facts_, schedule, list, estimated(schedule), limits_);
  };
  const double elements = 8192.0 * 8192.0;
  EXPECT_DOUBLE_EQ(work(legal_).shared_bytes - work(in_registers()).shared_bytes,
                   elements * 2.0 * 2.0 * 4.0);
  // A load and a store of two vectors of 32 bytes, in accesses of 16.
  EXPECT_NEAR(work(legal_).issue_slots - work(in_registers()).issue_slots, elements * 8.0 / 8.0,
              1.0);
  EXPECT_GT(work(legal_).block_latency_ns, work(in_registers()).block_latency_ns);
}

TEST_F(SharedAccumulatorsTest, RegistersAreOfferedAloneWhereTheyHoldARow) {
  const auto offers_shared = [&](const SegmentFacts& facts, const DeviceLimits& limits) {
    const auto any = [](const Proposal& proposal) {
      return std::ranges::any_of(proposal.candidates, [](const ProposedSchedule& candidate) {
        return candidate.schedule.accumulators() == Residency::kShared;
      });
    };
    return any(propose_multi_wave(facts, limits)) || any(propose_warp_specialised(facts, limits));
  };
  for (const char* device : {"H200", "A100", "L4"}) {
    for (const int64_t columns : {1024, 4096}) {
      EXPECT_FALSE(
          offers_shared(canned_facts("layer_norm_backward", 4096, columns), *find_device(device)))
          << device << " " << columns;
    }
  }
  EXPECT_FALSE(offers_shared(canned_facts("layer_norm", 4096, 32768), limits_));
  EXPECT_TRUE(offers_shared(canned_facts("layer_norm_backward", 4096, 16384), limits_));
  EXPECT_TRUE(
      offers_shared(canned_facts("layer_norm_backward", 4096, 16384), *find_device("A100")));
}

TEST_F(SharedAccumulatorsTest, EveryOfferIsLegalAndSpillsNothingThatRegistersWouldNot) {
  for (const int64_t columns : {16384, 24576, 32768}) {
    const SegmentFacts facts = canned_facts("layer_norm_backward", 4096, columns);
    int64_t offered = 0;
    for (const auto& propose : {propose_multi_wave, propose_warp_specialised}) {
      for (const ProposedSchedule& candidate : propose(facts, limits_).candidates) {
        if (candidate.schedule.accumulators() != Residency::kShared) continue;
        ++offered;
        EXPECT_THAT(verify_schedule(facts, candidate.schedule, limits_, families_), IsEmpty());
      }
    }
    EXPECT_GT(offered, 0) << columns;
  }
}

// Devices without clusters share a wide row's accumulators with nobody.
TEST_F(SharedAccumulatorsTest, WideRowsWithoutClustersChooseThem) {
  const auto chosen = [](std::string_view fusion, int64_t columns, std::string_view device) {
    return plan_canned(fusion, matrix(4096, columns), device).value().kernels.front().chosen();
  };
  for (const auto& [fusion, columns] :
       {std::pair("layer_norm_backward", 16384), std::pair("rms_norm_backward_f32", 24576)}) {
    EXPECT_EQ(chosen(fusion, columns, "A100").schedule.accumulators(), Residency::kShared)
        << fusion << " of " << columns << " columns";
  }
  for (const auto& [columns, device] :
       {std::pair(8192, "A100"), std::pair(8192, "L4"), std::pair(16384, "H200")}) {
    EXPECT_EQ(chosen("layer_norm_backward", columns, device).schedule.accumulators(),
              Residency::kRegister)
        << columns << " columns on " << device;
  }
}

TEST_F(SharedAccumulatorsTest, ExplainSaysSo) {
  const Plan plan = plan_canned("layer_norm_backward", matrix(8192, 8192), "H200",
                                {.families = families_, .pin = {.schedule = legal_}})
                        .value();
  EXPECT_THAT(explain(plan), AllOf(HasSubstr("2 in register, accumulators in shared"),
                                   HasSubstr("accumulators shared")));
}

}  // namespace sinter::shared_accumulators_test
