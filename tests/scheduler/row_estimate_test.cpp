#include "scheduler/cost/row_estimate.h"

#include <gmock/gmock.h>

#include <cmath>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/row_resources.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/canned_groups.h"
#include "tests/support/h200.h"
#include "tests/support/plan_matchers.h"

namespace sinter::row_estimate_test {

/// Time of a kernel of RMS norms under other constants.
double rms_norm_us(const Schedule& schedule, const CostConstants& constants) {
  const DeviceLimits h200 = *find_device("H200");
  const SegmentFacts facts =
      facts_of(find_canned_fusion("rms_norm")->build(), {{"rows", 8192}, {"cols", 4096}});
  const StageList list = stages_of(facts, schedule);
  const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, h200);
  const WorkEstimate work =
      estimate_row_work(facts, schedule, list, estimate, with(h200, constants));
  return predict(work, estimate, with(h200, constants)).total_us;
}

/// True if that constant of blocks that pass, doubled, makes a schedule dearer.
bool is_dearer(double RowConstants::*member, const Schedule& schedule) {
  CostConstants constants = kConstants;
  constants.row.*member *= 2.0;
  return rms_norm_us(schedule, constants) > rms_norm_us(schedule, kConstants);
}
bool is_dearer(double NonPersistentGrid::*member, const Schedule& schedule) {
  CostConstants constants = kConstants;
  constants.non_persistent.*member *= 2.0;
  return rms_norm_us(schedule, constants) > rms_norm_us(schedule, kConstants);
}

/// Weights of 48 MiB for each of two rows, whose products are summed element by element: half of
/// them have left the L2 of 50 MB when the second row reads them. Those of 8 MiB have not.
TEST(RowEstimateTest, WhatLeavesL2IsReadAgain) {
  const DeviceLimits h200 = *find_device("H200");
  const auto again = [&](int64_t m, int64_t n) {
    FusionBuilder b("products");
    const ValueId x = b.input(DType::kF32, {m, 4096});
    const ValueId w = b.input(DType::kF32, {n, 4096});
    const ValueId products =
        b.mul(b.broadcast(x, {m, n, 4096}, {0, 2}), b.broadcast(w, {m, n, 4096}, {1, 2}));
    b.output(b.reduce(ReduceFn::kSum, products, {2}), "y");
    return repeated_read_bytes(facts_of(b.build()), h200);
  };
  const double of_weights = 3072.0 * 4096.0 * 4.0;
  const double kept = static_cast<double>(h200.l2_bytes) / 2.0;
  EXPECT_EQ(again(1, 3072), 0.0);
  EXPECT_EQ(again(2, 3072), of_weights - kept);
  EXPECT_EQ(again(5, 3072), 4.0 * (of_weights - kept));
  EXPECT_EQ(again(2, 512), 0.0);
}

TEST(RowEstimateTest, EveryConstantOfLoopedRowsMatters) {
  for (const int64_t threads : {32, 128}) {
    const Schedule schedule{.family = "looped",
                            .parameters = LoopedParameters{},
                            .threads_per_row = threads,
                            .rows_per_block = 128 / threads,
                            .vector_width = 8};
    for (double RowConstants::*member :
         {&RowConstants::block_start_ns, &RowConstants::first_load_ns, &RowConstants::chunk_ns,
          &RowConstants::prologue_instructions})
      EXPECT_TRUE(is_dearer(member, schedule));
    EXPECT_EQ(is_dearer(&RowConstants::warp_exchange_ns, schedule), threads == 32);
    EXPECT_EQ(is_dearer(&RowConstants::block_exchange_ns, schedule), threads == 128);
    EXPECT_EQ(is_dearer(&RowConstants::exchange_instructions, schedule), threads == 128);
    EXPECT_TRUE(is_dearer(&NonPersistentGrid::clocks_per_instruction, schedule));
    EXPECT_TRUE(is_dearer(&NonPersistentGrid::last_share, schedule));
  }
}

// Candidates share what they have in common; alone, a schedule is estimated from the beginning.
TEST(RowEstimateTest, CandidatesAreEstimatedAsEachAloneIs) {
  const DeviceLimits h200 = *find_device("H200");
  const FamilySet families = scheduling_families();
  size_t candidates = 0;
  const auto expect_equal = [&](const SegmentFacts& facts) {
    for (const Family& family : families) {
      for (const ProposedSchedule& candidate : family.propose(facts, h200).candidates) {
        ++candidates;
        const auto estimate = family.estimate(facts, candidate.schedule, h200);
        ASSERT_TRUE(estimate.has_value());
        EXPECT_EQ(*estimate, candidate.estimate) << print(candidate.schedule);
        EXPECT_EQ(family.predict(facts, candidate.schedule, *estimate, h200), candidate.predicted)
            << print(candidate.schedule);
      }
    }
  };
  for (const CannedFusion& canned : canned_fusions()) {
    SCOPED_TRACE(canned.name);
    const Fusion fusion = canned.build();
    const auto facts = analyse(simplify(specialize(fusion, *bind_extents(fusion, canned.large))));
    if (facts) expect_equal(*facts);
  }
  EXPECT_GT(candidates, 1000U);
}

TEST(RowEstimateTest, ClustersStartLateAndKernelsBesideOthersEarly) {
  const CostConstants& constants = kConstants;
  const double early_us = -saved_behind_another(constants);
  EXPECT_LT(early_us, 0.0);
  EXPECT_DOUBLE_EQ(constants.launch_us + constants.ramp_us + early_us, constants.second_launch_us);
  EXPECT_EQ(start_time({}, kConstants), 0.0);
  EXPECT_EQ(start_time({.dependent_launch = DependentLaunch::kTrigger}, kConstants), 0.0);
  EXPECT_EQ(start_time({.dependent_launch = DependentLaunch::kWait}, kConstants), early_us);
  const MultiWaveParameters pairs{.cluster_size = 2};
  EXPECT_EQ(start_time({.parameters = pairs}, kConstants), constants.cluster_start_us);
  EXPECT_EQ(
      start_time({.parameters = pairs, .dependent_launch = DependentLaunch::kWait}, kConstants),
      constants.cluster_start_us + early_us);

  // Whichever family finishes.
  const Plan planned =
      plan_canned("layer_norm_backward", matrix_extents(8192, 4096), "H200").value();
  const auto& finishing = planned.kernels.back();
  ASSERT_TRUE(finishing.finishes);
  for (const ProposedSchedule& candidate : finishing.candidates) {
    ASSERT_EQ(candidate.schedule.dependent_launch, DependentLaunch::kWait);
    EXPECT_LT(candidate.predicted.launch_us,
              constants.second_launch_us + constants.cluster_start_us + 1e-9)
        << candidate.schedule.family;
  }
}

/// More than four warps of a row that they keep meet later, where no cluster does.
TEST(RowEstimateTest, ManyWarpsThatKeepARowSynchroniseLater) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("rms_norm")->build(), {{"rows", 8192}, {"cols", 8192}});
  for (const int64_t threads : {64, 128, 256, 512}) {
    Schedule schedule{.family = "multi_wave",
                      .parameters = MultiWaveParameters{},
                      .threads_per_row = threads,
                      .vector_width = 8};
    EXPECT_FALSE(is_dearer(&NonPersistentGrid::warps_doubling_ns, schedule)) << "nothing is kept";
    for (const ValueId value : facts.kept) schedule.kept.push_back({value, Residency::kRegister});
    EXPECT_EQ(is_dearer(&NonPersistentGrid::warps_doubling_ns, schedule), threads > 128) << threads;
    std::get<MultiWaveParameters>(schedule.parameters).cluster_size = 2;
    EXPECT_FALSE(is_dearer(&NonPersistentGrid::warps_doubling_ns, schedule));
  }
}

/// ptxas has the loads of up to 64 elements of 16 bits in flight before the first is used, and of
/// wider ones all.
TEST(RowEstimateTest, LongRowsOfSixteenBitsInRegistersLoadLate) {
  const DeviceLimits& limits = *find_device("H200");
  const auto loads_late = [&](DType type, int64_t columns, Residency residency) {
    FusionBuilder b;
    const ValueId x = b.input(type, {64, columns}, "x");
    const ValueId wide = b.cast(x, DType::kF32);
    const ValueId sum = b.sum(b.exp(wide), {1});
    b.output(b.div(b.exp(wide), b.broadcast_over(sum, wide, {1})), "y");
    const SegmentFacts facts = facts_of(b.build());
    const Schedule schedule{.family = "multi_wave",
                            .parameters = MultiWaveParameters{},
                            .threads_per_row = 128,
                            .vector_width = 4,
                            .kept = {{named_value(facts.fusion, "x"), residency}}};
    const StageList list = distribute(facts, schedule.kept);
    const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, limits);
    const WorkEstimate work = estimate_row_work(facts, schedule, list, estimate, limits);
    WorkEstimate early = work;
    early.loads_late = false;
    const double share = work.loads_late ? kConstants.non_persistent.late_loads_share : 0.0;
    EXPECT_NEAR(predict(work, estimate, limits).memory_us,
                predict(early, estimate, limits).memory_us * (1.0 + share), 1e-9);
    return work.loads_late;
  };
  const int64_t most = 128 * kLateLoadElements;
  for (const DType type : {DType::kBF16, DType::kF16}) {
    EXPECT_FALSE(loads_late(type, most, Residency::kRegister));
    EXPECT_TRUE(loads_late(type, most + 512, Residency::kRegister));
    EXPECT_FALSE(loads_late(type, most + 512, Residency::kShared));
  }
  EXPECT_FALSE(loads_late(DType::kF32, most + 512, Residency::kRegister));
}

/// What waits for late weights is a thread, once for all of its batches where they are unrolled,
/// and in every round of a loop over those in shared memory: layer norms of 2048 x 10240 in f32
/// take 46.2 us with their rows in registers and late weights, predicted at 53.4 when each batch
/// counted.
TEST(RowEstimateTest, UnrolledBatchesWaitForLateWeightsOnce) {
  const DeviceLimits& limits = *find_device("H200");
  for (const Residency residency : {Residency::kRegister, Residency::kShared}) {
    const auto waits_ns = [&](int64_t columns) {
      const SegmentFacts facts =
          facts_of(find_canned_fusion("layer_norm")->build(), {{"rows", 8192}, {"cols", columns}});
      Schedule schedule{.family = "multi_wave",
                        .parameters = MultiWaveParameters{},
                        .threads_per_row = 128,
                        .vector_width = 8};
      for (const ValueId value : facts.kept) schedule.kept.push_back({value, residency});
      const StageList list = distribute(facts, schedule.kept);
      const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, limits);
      return estimate_row_work(facts, schedule, list, estimate, limits).block_latency_ns;
    };
    const double added_ns = waits_ns(8 * 1024) - waits_ns(2 * 1024);
    if (residency == Residency::kRegister) {
      EXPECT_LT(added_ns, kConstants.row.cache_latency_ns);
    } else {
      EXPECT_GE(added_ns, 6 * kConstants.row.cache_latency_ns);
    }
  }
}

/// Weights read late, chunks in shared memory, rows in registers.
TEST(RowEstimateTest, EveryConstantOfResidentRowsMatters) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("rms_norm")->build(), {{"rows", 8192}, {"cols", 4096}});
  for (const Residency residency : {Residency::kRegister, Residency::kShared}) {
    Schedule schedule{.family = "multi_wave",
                      .parameters = MultiWaveParameters{},
                      .threads_per_row = 128,
                      .vector_width = 8};
    for (const ValueId value : facts.kept) schedule.kept.push_back({value, residency});
    EXPECT_TRUE(is_dearer(&RowConstants::cache_latency_ns, schedule));
    EXPECT_EQ(is_dearer(&RowConstants::shared_chunk_ns, schedule), residency == Residency::kShared);
    EXPECT_FALSE(is_dearer(&RowConstants::chunk_ns, schedule));
  }
}

/// A single block on each multiprocessor waits and computes nearly in turns; more of them overlap.
TEST(RowEstimateTest, PassingBlocksOverlapWithThoseBesideThem) {
  const DeviceLimits h200 = *find_device("H200");
  WorkEstimate work{.bytes_read = 4e8,
                    .issue_slots = 1e9,
                    .block_latency_ns = 3000.0,
                    .thread_instructions = 100.0};
  const auto exposed = [&](int64_t blocks_per_sm, const NonPersistentGrid& non_persistent) {
    ResourceEstimate estimate{.registers = 32,
                              .threads = 1024 / blocks_per_sm,
                              .blocks = h200.sm_count * blocks_per_sm * 32};
    complete(estimate, h200, blocks_per_sm);
    estimate.blocks_per_sm = blocks_per_sm;
    estimate.waves = 32.0;
    estimate.bytes_in_flight_per_sm = h200.bytes_in_flight_per_sm;
    CostConstants constants = kConstants;
    constants.non_persistent = non_persistent;
    return predict(work, estimate, with(h200, constants)).exposed_us;
  };
  const NonPersistentGrid non_persistent = kConstants.non_persistent;
  NonPersistentGrid in_turns = kConstants.non_persistent;
  in_turns.lone_overlap = 0.0;
  EXPECT_NEAR(exposed(1, in_turns) / 32.0, 3.0 + 0.11, 0.05) << "the chain of each of 32 waves";
  EXPECT_LT(exposed(1, non_persistent), 0.9 * exposed(1, in_turns)) << "its warps hide some of it";
  work.waits_for_copies = true;
  EXPECT_EQ(exposed(1, non_persistent), exposed(1, in_turns))
      << "unless they wait for all of the row";
  work.waits_for_copies = false;
  EXPECT_LT(exposed(8, non_persistent), 0.7 * exposed(1, non_persistent));
  NonPersistentGrid tighter = kConstants.non_persistent;
  tighter.overlap *= 2.0;
  EXPECT_LT(exposed(8, tighter), exposed(8, non_persistent));
  NonPersistentGrid faster = kConstants.non_persistent;
  faster.overlap_growth *= 1.2;
  EXPECT_LT(exposed(8, faster), exposed(8, non_persistent));
}

/// Text that SMs do not keep, SMs that clusters leave over, and computing beside loading.
TEST(RowEstimateTest, PassingBlocksFetchWhatIsNotKeptAndWorkOnTheSmsTheyHave) {
  const DeviceLimits h200 = *find_device("H200");
  const auto total = [&](auto change) {
    WorkEstimate work{.bytes_read = 1e6,
                      .bytes_written = 1e8,
                      .issue_slots = 1e9,
                      .block_latency_ns = 3000.0,
                      .thread_instructions = 100.0};
    ResourceEstimate estimate{.registers = 32, .threads = 256, .blocks = h200.sm_count * 64};
    complete(estimate, h200, 1);
    estimate.bytes_in_flight_per_sm = h200.bytes_in_flight_per_sm;
    CostConstants constants = kConstants;
    change(work, estimate, constants);
    return predict(work, estimate, with(h200, constants));
  };
  const Prediction plain = total([](auto&...) {});
  EXPECT_TRUE(plain.models_latency);
  const Prediction rereads = total([&](auto& work, auto&, auto&) { work.reads_rows_again = true; });
  EXPECT_NEAR(rereads.memory_us,
              plain.memory_us * (1.0 + kConstants.non_persistent.second_reads_share), 1e-9);
  const Prediction misses = total([&](auto& work, auto&, auto&) {
    work.reads_rows_again = true;
    work.missed_again = 0.5;
  });
  EXPECT_NEAR(misses.memory_us - rereads.memory_us,
              plain.memory_us * 0.5 * kConstants.non_persistent.missed_reads_share, 1e-9);
  const double fetched = 1e9;
  const Prediction fetches =
      total([&](auto& work, auto&, auto&) { work.fetched_text_bytes = fetched; });
  EXPECT_NEAR(fetches.issue_us - plain.issue_us,
              fetched / (kConstants.text_bytes_per_clock * h200.clock_mhz *
                         static_cast<double>(h200.sm_count)),
              1e-9);
  const Prediction fewer =
      total([&](auto&, auto& estimate, auto&) { estimate.idle_sms = h200.sm_count / 2; });
  EXPECT_NEAR(fewer.issue_us, 2.0 * plain.issue_us, 1e-9);
  EXPECT_EQ(fewer.memory_us, plain.memory_us);
  const auto constant = [&](double NonPersistentGrid::*member) {
    return total([&](auto&, auto&, auto& constants) { constants.non_persistent.*member *= 2.0; })
        .total_us;
  };
  EXPECT_GT(constant(&NonPersistentGrid::alternation_share), plain.total_us);
  EXPECT_LT(constant(&NonPersistentGrid::draining_ns_per_byte), plain.total_us);
}

/// Where nothing is kept of a row and nothing is stored, waits hide behind loads, and rows read
/// side by side slow each other down.
TEST(RowEstimateTest, SumsHideTheirWaits) {
  const DeviceLimits h200 = *find_device("H200");
  const auto total = [&](auto change) {
    WorkEstimate work{.bytes_read = 2e8,
                      .issue_slots = 5e8,
                      .block_latency_ns = 2000.0,
                      .thread_instructions = 100.0};
    ResourceEstimate estimate{.registers = 64, .threads = 1024, .blocks = h200.sm_count * 16};
    complete(estimate, h200, 1);
    estimate.bytes_in_flight_per_sm = h200.bytes_in_flight_per_sm;
    CostConstants constants = kConstants;
    work.element_slots = 0.2 * constants.non_persistent.balanced_slots_per_byte * work.bytes_read;
    change(work, constants.non_persistent);
    return predict(work, estimate, with(h200, constants));
  };
  const auto walks = [&](auto change) {
    return total([&](auto& work, auto& non_persistent) {
      work.bytes_written = 2e8;
      work.walks_rows = work.reads_rows_again = true;
      change(work, non_persistent);
    });
  };
  const Prediction walking = walks([](auto&, auto&) {});
  EXPECT_EQ(walks([](auto& work, auto&) { work.rows_at_once = 16.0; }).memory_us, walking.memory_us)
      << "what stores as much as it reads is no sum";

  const auto sums = [&](auto change) {
    return total([&](auto& work, auto& non_persistent) {
      work.walks_rows = true;
      change(work, non_persistent);
    });
  };
  const Prediction sum = sums([](auto&, auto&) {});
  const double idle_share = 1.0 - 0.2;
  EXPECT_NEAR(sums([](auto& work, auto&) { work.rows_at_once = 8.0; }).memory_us / sum.memory_us,
              1.0 + 3.0 * kConstants.non_persistent.row_doubling_share * std::pow(idle_share, 3.0),
              1e-12);
  const auto waits_us = [&](double computing) {
    return sums([&](auto& work, auto& non_persistent) {
             work.element_slots =
                 computing * non_persistent.balanced_slots_per_byte * work.bytes_read;
           })
        .exposed_us;
  };
  EXPECT_LT(waits_us(0.1), waits_us(0.2));
  EXPECT_LT(waits_us(0.2), waits_us(kConstants.non_persistent.waiting_compute_share));
  EXPECT_EQ(waits_us(1.0), waits_us(kConstants.non_persistent.waiting_compute_share));
  EXPECT_GT(sums([](auto& work, auto&) { work.reads_rows_again = true; }).exposed_us,
            sum.exposed_us)
      << "rows that are read twice wait in between";
}

/// Cross-entropy of 1024 x 250000 in bf16: 232 rows of 792 blocks are left for a second round.
TEST(RowEstimateTest, TheLastRoundOfPersistentBlocksTakesItsOwnLoads) {
  const DeviceLimits h200 = *find_device("H200");
  const SegmentFacts facts = facts_of(find_canned_fusion("row_and_total_loss")->build(),
                                      {{"rows", 1024}, {"cols", 250000}});
  const auto uneven = [&](int64_t blocks) {
    const Schedule schedule{.family = "looped",
                            .parameters = LoopedParameters{},
                            .threads_per_row = 256,
                            .vector_width = 8,
                            .unroll = 2,
                            .persistent_blocks = blocks};
    ResourceEstimate estimate{.registers = 37, .threads = 256, .blocks = blocks};
    complete(estimate, h200, 6);
    estimate.bytes_in_flight_per_sm = 6.0 * 8192.0;
    return uneven_rows_time(facts, schedule, estimate, h200);
  };
  EXPECT_EQ(uneven(1024), 0.0);
  EXPECT_EQ(uneven(512), 0.0);
  EXPECT_GT(uneven(792), 10.0);
  EXPECT_GT(uneven(1000), uneven(792)) << "24 rows leave memory to idle for longer than 232";
}

/// Bytes over the latency of memory that waits: fewer of them on their way make a memory as slow.
TEST(RowEstimateTest, MemoryIsAsFastAsWhatIsOnItsWay) {
  const DeviceLimits h200 = *find_device("H200");
  const WorkEstimate work{.bytes_read = 4e9, .thread_instructions = 1.0};
  const auto total = [&](double share, int64_t blocks_per_sm, int64_t blocks) {
    ResourceEstimate estimate{.registers = 32, .threads = 1024, .blocks = blocks};
    complete(estimate, h200, blocks_per_sm);
    estimate.blocks_per_sm = blocks_per_sm;
    estimate.waves = 1.0;
    estimate.bytes_in_flight_per_sm =
        share * kConstants.non_persistent.idle_latency_share * h200.bytes_in_flight_per_sm;
    return predict(work, estimate, h200).total_us;
  };
  const double enough = total(1.0, 2, h200.sm_count * 2);
  EXPECT_EQ(total(2.0, 2, h200.sm_count * 2), enough);
  const double half = total(0.5, 2, h200.sm_count * 2);
  EXPECT_GT(half, 1.8 * enough) << "memory at its peak would take twice as long";
  EXPECT_NEAR(total(0.25, 2, h200.sm_count * 2) / half, 2.0, 0.02);
  EXPECT_NEAR(total(1.0, 2, h200.sm_count) / half, 1.0, 0.02) << "every second place is empty";
  EXPECT_NEAR(total(1.0, 1, h200.sm_count / 2) / half, 1.0, 0.02) << "half the SMs are idle";
}

/// Blocks that load one element to a thread wait for memory one after the other.
TEST(RowEstimateTest, BlocksOfFewBytesLeaveMemoryIdle) {
  const DeviceLimits h100 = *find_device("H100");
  const auto total = [&](int64_t elements_per_thread, bool loads_once) {
    WorkEstimate work{.bytes_read = 134217728.0,
                      .bytes_written = 134217728.0,
                      .read_priority = ReadPriority::kEvictLast,
                      .block_latency_ns = 300.0,
                      .loads_once = loads_once};
    ResourceEstimate estimate{.registers = 16,
                              .threads = 256,
                              .blocks = (int64_t{1} << 26) / (256 * elements_per_thread)};
    complete(estimate, h100, 8);
    return predict(work, estimate, h100).total_us;
  };
  EXPECT_GT(total(1, true), 1.3 * total(1, false));
  EXPECT_LT(total(8, true), 1.01 * total(8, false));
}

/// Rows of 3,072 elements of bf16 are 384 vectors, however many more the threads could load.
TEST(RowEstimateTest, ThreadsWithoutAVectorHaveNothingOnItsWay) {
  const DeviceLimits h200 = *find_device("H200");
  const SegmentFacts facts =
      facts_of(find_canned_fusion("row_sum")->build(), {{"rows", 16384}, {"cols", 3072}});
  const auto of_block = [&](int64_t threads, int64_t unroll, int64_t cluster_size = 1) {
    const Schedule schedule{.family = "looped",
                            .parameters = LoopedParameters{.cluster_size = cluster_size},
                            .threads_per_row = threads,
                            .vector_width = 8,
                            .unroll = unroll};
    const StageList list = distribute(facts, schedule.kept);
    const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, h200);
    return estimate.bytes_in_flight_per_sm / static_cast<double>(estimate.blocks_per_sm);
  };
  constexpr double kRow = 3072.0 * 2.0;
  EXPECT_EQ(of_block(512, 1), kRow);
  EXPECT_EQ(of_block(256, 2), kRow);
  EXPECT_EQ(of_block(128, 1), 128.0 * 16.0) << "chunks of a longer row are full";
  EXPECT_EQ(of_block(256, 1, 2), kRow / 2.0) << "a block of a cluster has its part of the row";
}

/// A thread reads what it has of them like a scalar of its row.
TEST(RowEstimateTest, RowsOfOneColumnAreAsFastAsThoseOfTwo) {
  for (const char* name : {"row_sum", "rms_norm", "softmax"}) {
    const auto us = [&](int64_t columns) {
      return plan_canned(name, {{"rows", 1'000'000}, {"cols", columns}}, "H200")
          .value()
          .predicted_us();
    };
    EXPECT_LT(us(1), 1.2 * us(2)) << name;
  }
}

/// Vectors that are stored in two accesses, of which each takes half of every sector, unless two
/// threads store them together.
TEST(RowEstimateTest, StoresThatSplitSectorsCost) {
  const DeviceLimits h200 = *find_device("H200");
  const auto memory_us = [&](DType from, DType to, int64_t width, bool in_place = false) {
    FusionBuilder b("cast");
    const Shape shape = {Extent(8192), Extent(8192)};
    const ValueId x = b.input(from, shape, "x");
    const ValueId own = b.input(to, shape, "own");
    const ValueId sum = b.cast(b.add(b.cast(x, DType::kF32), b.cast(own, DType::kF32)), to);
    b.output(sum, "y", in_place ? OutputOptions{.alias = own} : OutputOptions{});
    const SegmentFacts facts = facts_of(b.build());
    const Schedule schedule{.family = "pointwise", .threads_per_row = 128, .vector_width = width};
    const Family family = *find_family(scheduling_families(), "pointwise");
    return family.predict(facts, schedule, family.estimate(facts, schedule, h200).value(), h200)
        .memory_us;
  };
  const double once = memory_us(DType::kF8E4M3, DType::kBF16, 8);
  EXPECT_GT(memory_us(DType::kF8E4M3, DType::kBF16, 16), 1.02 * once);
  EXPECT_EQ(memory_us(DType::kBF16, DType::kF32, 8), memory_us(DType::kBF16, DType::kF32, 4));
  EXPECT_GT(memory_us(DType::kBF16, DType::kF32, 8, true),
            1.02 * memory_us(DType::kBF16, DType::kF32, 4, true))
      << "another thread's part of the input lies there";
}

/// What is computed on its way to shared memory is loaded a chunk at a time; inputs are copied
/// there all at once.
TEST(RowEstimateTest, ChunksOfComputedRowsAreWaitedFor) {
  const DeviceLimits h200 = *find_device("H200");
  const SegmentFacts facts = facts_of(find_canned_fusion("scaled_masked_softmax")->build(),
                                      {{"rows", 4096}, {"cols", 8192}});
  const auto waits = [&](Residency residency, int64_t unroll,
                         const CostConstants& constants = kConstants) {
    Schedule schedule{.family = "multi_wave",
                      .parameters = MultiWaveParameters{.cluster_size = 2},
                      .threads_per_row = 128,
                      .vector_width = 8,
                      .unroll = unroll};
    for (const ValueId value : facts.kept) schedule.kept.push_back({value, residency});
    const StageList list = distribute(facts, schedule.kept);
    const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, h200);
    return estimate_row_work(facts, schedule, list, estimate, with(h200, constants))
        .block_latency_ns;
  };
  const RowConstants row = kConstants.row;
  const double shared = waits(Residency::kShared, 1) - waits(Residency::kShared, 4);
  EXPECT_GT(shared, 3.0 * row.chunk_ns) << "four chunks instead of one";
  EXPECT_LT(waits(Residency::kRegister, 1), waits(Residency::kShared, 1) - 3.0 * row.chunk_ns);
  // In each of them a cluster waits for the slowest of its blocks.
  CostConstants alone = kConstants;
  alone.non_persistent.cluster_gather_ns = 0.0;
  const auto gathered = [&](Residency residency, int64_t unroll) {
    return waits(residency, unroll) - waits(residency, unroll, alone);
  };
  EXPECT_NEAR(gathered(Residency::kShared, 1), 4.0 * gathered(Residency::kShared, 4), 1e-9);
  EXPECT_NEAR(gathered(Residency::kRegister, 1), kConstants.non_persistent.cluster_gather_ns, 1e-9);
}

/// Statistics of a chunk are merged into those of the row, which takes a step of the exchange.
TEST(RowEstimateTest, ChunksOfStatisticsAreMerged) {
  const DeviceLimits h200 = *find_device("H200");
  const auto slots = [&](const char* fusion, int64_t unroll) {
    const SegmentFacts facts =
        facts_of(find_canned_fusion(fusion)->build(), {{"rows", 4096}, {"cols", 8192}});
    const Schedule schedule{.family = "looped",
                            .parameters = LoopedParameters{},
                            .threads_per_row = 128,
                            .vector_width = 8,
                            .unroll = unroll};
    const StageList list = distribute(facts, {});
    const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, h200);
    return estimate_row_work(facts, schedule, list, estimate, h200).issue_slots;
  };
  const double threads = 4096.0 * 128.0;
  EXPECT_EQ(slots("rms_norm", 1), slots("rms_norm", 4)) << "sums run on";
  EXPECT_EQ(slots("layer_norm", 1) - slots("layer_norm", 4), threads * (7 - 1) * 32.0);
  EXPECT_EQ(slots("softmax", 1) - slots("softmax", 4), threads * (7 - 1) * 14.0);
}

}  // namespace sinter::row_estimate_test
