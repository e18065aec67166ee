#include "scheduler/cost/cost_model.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/row_resources.h"
#include "scheduler/cost/row_estimate.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/canned_groups.h"
#include "tests/support/h200.h"

namespace sinter::cost_model_test {

using testing::DoubleNear;

ResourceEstimate full_device(const DeviceLimits& limits) {
  ResourceEstimate estimate{.registers = 32, .threads = 256, .blocks = limits.sm_count * 8 * 10};
  complete(estimate, limits, 8);
  return estimate;
}

struct Case {
  DeviceLimits limits;
  ResourceEstimate estimate;
  WorkEstimate work;
};

Case any_case() {
  Case c;
  c.limits = *rc::gen::elementOf(
      std::vector<DeviceLimits>(device_presets().begin(), device_presets().end()));
  c.estimate.threads = 32 * *rc::gen::inRange<int64_t>(1, 33);
  c.estimate.registers = *rc::gen::inRange<int64_t>(16, 300);
  c.estimate.blocks = *rc::gen::inRange<int64_t>(1, 100'000);
  complete(c.estimate, c.limits, 1);
  const auto amount = [] {
    return static_cast<double>(*rc::gen::inRange<int64_t>(0, 1'000'000'000));
  };
  c.work = {.bytes_read = amount(),
            .bytes_written = amount(),
            .issue_slots = amount(),
            .special = amount(),
            .shared_bytes = amount(),
            .block_latency_ns = static_cast<double>(*rc::gen::inRange<int64_t>(0, 100'000))};
  return c;
}

double total(const Case& c) { return predict(c.work, c.estimate, c.limits).total_us; }

RC_GTEST_PROP(CostModelTest, MoreWorkIsNeverFaster, ()) {
  const Case c = any_case();
  RC_PRE(c.estimate.blocks_per_sm > 0);
  // Writing more in place of nothing lowers efficiency; reading more raises it again: time grows
  // all the same.
  for (double WorkEstimate::*member :
       {&WorkEstimate::bytes_read, &WorkEstimate::bytes_written, &WorkEstimate::issue_slots,
        &WorkEstimate::special, &WorkEstimate::shared_bytes, &WorkEstimate::block_latency_ns}) {
    Case more = c;
    more.work.*member += static_cast<double>(*rc::gen::inRange<int64_t>(1, 100'000'000));
    RC_ASSERT(total(more) >= total(c) * (1.0 - 1e-12));
  }
}

RC_GTEST_PROP(CostModelTest, FasterDevicesAreNeverSlower, ()) {
  const Case c = any_case();
  RC_PRE(c.estimate.blocks_per_sm > 0);
  for (double DeviceLimits::*member :
       {&DeviceLimits::memory_bytes_per_us, &DeviceLimits::clock_mhz,
        &DeviceLimits::issue_per_clock, &DeviceLimits::special_per_clock,
        &DeviceLimits::shared_bytes_per_clock}) {
    Case faster = c;
    faster.limits.*member *= 1.5;
    RC_ASSERT(total(faster) <= total(c) * (1.0 + 1e-12));
  }
}

RC_GTEST_PROP(CostModelTest, TotalIsTheSumOfItsParts, ()) {
  const Case c = any_case();
  const Prediction p = predict(c.work, c.estimate, c.limits);
  const double largest = std::max({p.memory_us, p.issue_us, p.special_us, p.shared_us});
  RC_ASSERT(p.exposed_us >= 0.0);
  RC_ASSERT(std::abs(p.total_us - (p.launch_us + largest + p.exposed_us + p.spill_us)) <=
            1e-9 * p.total_us);
}

TEST(CostModelTest, MemoryTimeIsBytesOverTheMixedBandwidth) {
  const DeviceLimits h200 = *find_device("H200");
  EXPECT_DOUBLE_EQ(mixed_bandwidth(h200, 1e6, 0.0),
                   h200.memory_bytes_per_us * h200.read_efficiency);
  EXPECT_DOUBLE_EQ(mixed_bandwidth(h200, 1e6, 1e6),
                   h200.memory_bytes_per_us * h200.copy_efficiency);
  EXPECT_DOUBLE_EQ(mixed_bandwidth(h200, 0.0, 1e6),
                   h200.memory_bytes_per_us * h200.copy_efficiency);
  EXPECT_GT(mixed_bandwidth(h200, 0.0, 0.0), 0.0);
  // 128 MiB in, 128 MiB out, at 0.895 of 4.8 TB/s; dearer by turns without the priority.
  const auto turns_us = [](double bytes) { return kConstants.normal_read_us_per_gb * bytes / 1e9; };
  WorkEstimate work{.bytes_read = 134217728.0,
                    .bytes_written = 134217728.0,
                    .read_priority = ReadPriority::kEvictLast};
  const double streamed = 2.0 * 134217728.0 / (4.8e6 * 0.895);
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us, DoubleNear(streamed, 1e-9));
  work.read_priority = ReadPriority::kNormal;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear(streamed + turns_us(2.0 * 134217728.0), 1e-9));
  // Reads alone push out what other kernels wrote, unless they leave first.
  work.bytes_written = 0.0;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear((134217728.0 + 22e6) / (4.8e6 * 0.952), 1e-9));
  work.read_priority = ReadPriority::kEvictLast;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear((134217728.0 + 22e6) / (4.8e6 * 0.952), 1e-9));
  work.read_priority = ReadPriority::kEvictFirst;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear(134217728.0 * 1.06 / (4.8e6 * 0.952), 1e-9));
  // Within L2's size they push out a part of it: the square of their share.
  const double half = static_cast<double>(h200.l2_bytes) / 2.0;
  work.bytes_read = half;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear(half * 1.06 / (4.8e6 * 0.952), 1e-9));
  work.read_priority = ReadPriority::kNormal;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear((half + 22e6 / 4.0) / (4.8e6 * 0.952), 1e-9));
  // Beside a third as many writes a sixteenth of that is at stake, beside as many nothing.
  work.bytes_read = 134217728.0;
  work.bytes_written = 134217728.0 / 3.0;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear((4.0 / 3.0 * 134217728.0 + 22e6 / 16.0) / mixed_bandwidth(h200, 3.0, 1.0) +
                             turns_us(4.0 / 3.0 * 134217728.0) / 2.0,
                         1e-9));
  // L2 has room for a part of its size.
  const double room = kConstants.l2_room_share * static_cast<double>(h200.l2_bytes);
  work.bytes_read = work.bytes_written = room / 2.0;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear(room / (4.8e6 * 0.895), 1e-9));
  work.bytes_read = work.bytes_written = room;
  EXPECT_THAT(predict(work, full_device(h200), h200).memory_us,
              DoubleNear(2.0 * room / (4.8e6 * 0.895) + turns_us(2.0 * room), 1e-9));
}

// Quantisations of 8192 x 2048 in bf16 take 22.9 us on an H100, and 21.6 where reads ask to leave
// L2 last (benchmarks/results/h100_2026-11-25_suite_bf16.json).
TEST(CostModelTest, AlternationOfReadsAndWritesTakesTimeWhateverBoundsTheRest) {
  const DeviceLimits h100 = *find_device("H100");
  constexpr double kRead = 8192.0 * 2048.0 * 2.0;
  const double last = memory_time(h100, kRead, kRead / 2.0, ReadPriority::kEvictLast);
  EXPECT_GT(memory_time(h100, kRead, kRead / 2.0, ReadPriority::kNormal), 1.01 * last);
}

TEST(CostModelTest, WhatIsWrittenNeverSavesTime) {
  for (const DeviceLimits& limits : device_presets()) {
    for (const double read : {1e6, 19e6, 39e6, 134e6, 1e9}) {
      for (const ReadPriority priority : {ReadPriority::kNormal, ReadPriority::kEvictLast,
                                          ReadPriority::kEvictFirst, ReadPriority::kLastUse}) {
        double before = memory_time(limits, read, 0.0, priority);
        for (double written = 64.0; written < 4.0 * read; written *= 1.1) {
          const double now = memory_time(limits, read, written, priority);
          EXPECT_GE(now, before) << limits.name << ": " << read << " B read, " << written;
          before = now;
        }
      }
    }
  }
}

/// A kernel that reads rows of 16 KiB twice, with `rows_per_block` of them in each of `blocks`
/// blocks on an SM.
WorkEstimate rereading_work(Fusion fusion, int64_t rows_per_block, int64_t blocks,
                            const CostConstants& constants = kConstants) {
  const DeviceLimits h200 = *find_device("H200");
  const SegmentFacts facts = facts_of(std::move(fusion), {{"rows", 8192}, {"cols", 8192}});
  const Schedule schedule{.family = "looped",
                          .parameters = LoopedParameters{},
                          .threads_per_row = 32,
                          .rows_per_block = rows_per_block,
                          .vector_width = 8,
                          .unroll = 4,
                          .min_blocks_per_sm = blocks};
  const StageList list = distribute(facts, {});
  ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, h200);
  estimate.blocks_per_sm = blocks;
  return estimate_row_work(facts, schedule, list, estimate, with(h200, constants));
}

/// The same of an RMS norm.
WorkEstimate rereading_work(int64_t rows_per_block, int64_t blocks,
                            const CostConstants& constants = kConstants) {
  return rereading_work(find_canned_fusion("rms_norm")->build(), rows_per_block, blocks, constants);
}

TEST(CostModelTest, SecondReadsHitL1UntilTheResidentRowsOutgrowTheirPart) {
  const double once = 2.0 * 8192 * 8192 * 2.0;
  const double row_pass = 8192 * 8192 * 2.0;
  EXPECT_LT(rereading_work(4, 1).l2_bytes, once * 1.001);  // 64 KiB
  const double some = rereading_work(5, 2).l2_bytes;       // 160 KiB
  EXPECT_GT(some, once + 0.1 * row_pass);
  EXPECT_LT(some, once + 0.6 * row_pass);
  const auto l1_bytes = static_cast<double>(unified_l1_bytes(*find_device("H200")) - 4 * 1024);
  const double missed = 1.0 - kConstants.l1_row_share * l1_bytes / (640.0 * 1024.0);
  EXPECT_GT(missed, 0.8);
  EXPECT_NEAR(rereading_work(10, 4).l2_bytes, once + missed * row_pass, 0.01 * row_pass);
}

TEST(CostModelTest, WhatComesBesideSecondReadsPushesThemOutOfL1) {
  // x is read for its mean square, then again beside others.
  const auto l2_bytes = [](bool is_gated, bool is_weighted, int64_t rows_per_block) {
    MatrixBuilder m("beside");
    const ValueId x = m.matrix(DType::kBF16, "x");
    ValueId y = m.b.mul(x, m.per_row(m.b.rsqrt(m.b.sum(m.b.mul(x, x), {1}))));
    if (is_gated) y = m.b.mul(y, m.matrix(DType::kBF16, "gate"));
    if (is_weighted) y = m.b.mul(y, m.b.input(DType::kBF16, {m.cols}, "weight"));
    m.b.output(m.b.cast(y, DType::kBF16));
    return rereading_work(m.b.build(), rows_per_block, 4).l2_bytes;
  };
  const double pass = 8192 * 8192 * 2.0;
  // Half of the gate's row has come by then: two such rows are as three without a gate, 192 KiB.
  const double gated = l2_bytes(true, false, 2) - 3.0 * pass;
  EXPECT_GT(gated, 0.1 * pass);
  EXPECT_LT(gated, 0.9 * pass);
  EXPECT_NEAR(gated, l2_bytes(false, false, 3) - 2.0 * pass, 0.001 * pass);
  // All of an SM's 12 rows share their weights, of which half has come.
  const double plain = l2_bytes(false, false, 3) - 2.0 * pass;
  const double weighted = l2_bytes(false, true, 3) - 2.0 * pass;
  const double l1_bytes = static_cast<double>(unified_l1_bytes(*find_device("H200")) - 4 * 1024);
  const CostConstants& constants = kConstants;
  const double row = 8192.0 * 2.0;
  const double more = constants.l1_row_share * l1_bytes * (1.0 / (12.0 * row) - 1.0 / (12.5 * row));
  EXPECT_NEAR((weighted - plain) / pass, more, 0.05 * more);
}

TEST(CostModelTest, EveryConstantOfSecondReadsMatters) {
  CostConstants constants = kConstants;
  constants.l1_row_share *= 2.0;
  EXPECT_LT(rereading_work(5, 2, constants).l2_bytes, rereading_work(5, 2).l2_bytes);
  constants = kConstants;
  constants.row.l1_chunk_ns *= 2.0;
  EXPECT_GT(rereading_work(4, 1, constants).block_latency_ns,
            rereading_work(4, 1).block_latency_ns);
}

TEST(CostModelTest, ThroughputTermsFollowTheirRates) {
  const DeviceLimits h200 = *find_device("H200");
  const CostConstants& constants = kConstants;
  const Prediction p =
      predict({.issue_slots = 1e9, .special = 1e9, .shared_bytes = 1e9}, full_device(h200), h200);
  const double clocks = 1755.0 * 132.0;  // Per microsecond, over all SMs.
  EXPECT_THAT(p.special_us, DoubleNear(1e9 / (16.0 * clocks), 1e-9));
  EXPECT_THAT(p.shared_us, DoubleNear(1e9 / (128.0 * clocks), 1e-9));
  EXPECT_THAT(p.issue_us,
              DoubleNear(1e9 / 32.0 / (4.0 * constants.issue_efficiency * clocks), 1e-9));
}

TEST(CostModelTest, AGridSmallerThanTheDeviceUsesItsShare) {
  const DeviceLimits h200 = *find_device("H200");
  ResourceEstimate one = full_device(h200);
  one.blocks = 1;
  ResourceEstimate all = one;
  all.blocks = h200.sm_count;
  EXPECT_DOUBLE_EQ(predict({.issue_slots = 1e6}, one, h200).issue_us,
                   132.0 * predict({.issue_slots = 1e6}, all, h200).issue_us);
}

TEST(CostModelTest, SpillsAreCharged) {
  const DeviceLimits h200 = *find_device("H200");
  ResourceEstimate spilling = full_device(h200);
  spilling.spilled_registers = 10;
  const WorkEstimate work{.bytes_read = 1e8};
  EXPECT_EQ(predict(work, full_device(h200), h200).spill_us, 0.0);
  const double plain = predict(work, full_device(h200), h200).total_us;
  EXPECT_GT(predict(work, spilling, h200).total_us, plain);
  // They are waited for beside what they move, up to so many.
  spilling.spilled_registers = 2;
  CostConstants careless = kConstants;
  careless.spill_share = 0.0;
  EXPECT_NEAR(predict(work, spilling, h200).total_us -
                  predict(work, spilling, with(h200, careless)).total_us,
              2.0 * kConstants.spill_share * plain, 1e-9);
  spilling.spilled_registers = 100;
  CostConstants patient = kConstants;
  patient.most_spills_waited_for = 100;
  EXPECT_GT(predict(work, spilling, with(h200, patient)).total_us,
            predict(work, spilling, h200).total_us);
}

/// Constants that predict() itself reads.
TEST(CostModelTest, LaunchAndIssueEfficiencyMatter) {
  const DeviceLimits h200 = *find_device("H200");
  const WorkEstimate work{.issue_slots = 1e9};
  const double base = predict(work, full_device(h200), h200).total_us;
  CostConstants launch = kConstants;
  launch.launch_us += 0.5;
  launch.ramp_us += 0.5;
  EXPECT_DOUBLE_EQ(predict(work, full_device(h200), with(h200, launch)).total_us, base + 1.0);
  CostConstants efficient = kConstants;
  efficient.issue_efficiency = 1.0;
  EXPECT_LT(predict(work, full_device(h200), with(h200, efficient)).total_us, base);
}

/// Vectors of eight f32 elements take two accesses each, half of which counts as traffic.
TEST(CostModelTest, WideVectorsSplitSectors) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("rms_norm")->build(), {{"rows", 64}, {"cols", 1024}});
  Schedule schedule{.family = "looped",
                    .parameters = LoopedParameters{},
                    .threads_per_row = 32,
                    .vector_width = 8};
  EXPECT_EQ(split_sector_bytes(facts, schedule), 0.0) << "16 bytes in bf16";
  schedule.vector_width = 16;
  EXPECT_EQ(split_sector_bytes(facts, schedule), 0.5 * 2.0 * 64 * 1024 * 2) << "x and y";
}

/// Copies of less than 16 bytes take time of their own.
TEST(CostModelTest, NarrowCopiesAreCharged) {
  const SegmentFacts facts =
      facts_of(find_canned_fusion("softmax")->build(), {{"rows", 64}, {"cols", 1024}});
  Schedule schedule{.family = "multi_wave",
                    .parameters = MultiWaveParameters{},
                    .threads_per_row = 32,
                    .vector_width = 4};
  EXPECT_EQ(narrow_copy_bytes(facts, schedule), 0.0) << "nothing is copied";
  schedule.kept = {{facts.fusion.inputs[0], Residency::kShared}};
  EXPECT_EQ(narrow_copy_bytes(facts, schedule), 64.0 * 1024.0 * 2.0) << "8 bytes each";
  schedule.vector_width = 8;
  EXPECT_EQ(narrow_copy_bytes(facts, schedule), 0.0) << "16 bytes";
  schedule.vector_width = 1;
  EXPECT_EQ(narrow_copy_bytes(facts, schedule), 0.0) << "through registers";
  schedule.vector_width = 4;
  schedule.kept.front().residency = Residency::kRegister;
  EXPECT_EQ(narrow_copy_bytes(facts, schedule), 0.0);

  const DeviceLimits h200 = *find_device("H200");
  ResourceEstimate estimate = full_device(h200);
  estimate.bytes_in_flight_per_sm = h200.bytes_in_flight_per_sm;
  WorkEstimate work{.bytes_read = 1e9, .issue_slots = 1e6, .thread_instructions = 100.0};
  const double whole_us = predict(work, estimate, h200).total_us;
  work.narrow_copy_bytes = 1e9;
  const double path_us =
      1e9 / (h200.shared_bytes_per_clock * h200.clock_mhz * static_cast<double>(h200.sm_count));
  EXPECT_NEAR(predict(work, estimate, h200).total_us - whole_us, path_us, 1e-6 * path_us)
      << "as long again as 16-byte copies of as many bytes take";
}

/// Rows without a whole vector are read all the same.
TEST(CostModelTest, RowsShorterThanAVectorAreInFlightToo) {
  const DeviceLimits h200 = *find_device("H200");
  const Schedule schedule{.family = "looped",
                          .parameters = LoopedParameters{},
                          .threads_per_row = 32,
                          .vector_width = 8,
                          .row_access = RowAccess::kUnaligned};
  const auto predicted_us = [&](int64_t columns) {
    const SegmentFacts facts =
        facts_of(find_canned_fusion("softmax")->build(), {{"rows", 5000}, {"cols", columns}});
    const StageList list = distribute(facts, schedule.kept);
    const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, h200);
    return predict_rows(facts, schedule, estimate, h200).total_us;
  };
  EXPECT_LT(predicted_us(7), 2.0 * predicted_us(9));
}

/// The weight of a channel repeats along its pixels: after the first chunk it is in L1, and does
/// not stream with the row. A norm of as many columns whose weights differ waits for each chunk of
/// them.
TEST(CostModelTest, WeightsThatRepeatComeOnce) {
  const DeviceLimits h100 = *find_device("H100");
  const auto wait_ns = [&](std::string_view name, const ExtentValues& extents, int64_t unroll) {
    const SegmentFacts facts = facts_of(find_canned_fusion(name)->build(), extents);
    const Schedule schedule{.family = "multi_wave",
                            .parameters = MultiWaveParameters{},
                            .threads_per_row = 512,
                            .vector_width = 8,
                            .unroll = unroll,
                            .row_access = RowAccess::kAligned,
                            .kept = {{facts.space.inputs.front().value, Residency::kShared}}};
    const StageList list = distribute(facts, schedule.kept);
    const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, h100);
    return estimate_row_work(facts, schedule, list, estimate, h100).block_latency_ns;
  };
  const ExtentValues images = {{"batch", 32}, {"pixels", 4096}};
  const double more_chunks = 8.0 - 4.0;  // 32768 columns in chunks of one vector, and of two.
  const RowConstants row = kConstants.row;
  const double slack_ns =
      2.0 * more_chunks * row.shared_chunk_ns;  // Two stages, a few ns of issue.
  EXPECT_LT(wait_ns("group_norm", images, 1) - wait_ns("group_norm", images, 2),
            more_chunks * row.l1_chunk_ns + slack_ns + 1.0);
  EXPECT_GT(
      wait_ns("layer_norm", matrix(256, 32768), 1) - wait_ns("layer_norm", matrix(256, 32768), 2),
      more_chunks * row.cache_latency_ns);
}

/// A row in shared memory is read in every stage, a vector an instruction.
TEST(CostModelTest, ReadsOfSharedRowsAreIssued) {
  const DeviceLimits h200 = *find_device("H200");
  const SegmentFacts facts =
      facts_of(find_canned_fusion("rms_norm")->build(), {{"rows", 8192}, {"cols", 8192}});
  const auto slots = [&](Residency residency) {
    Schedule schedule{.family = "multi_wave",
                      .parameters = MultiWaveParameters{},
                      .threads_per_row = 256,
                      .vector_width = 8};
    for (const ValueId value : facts.kept) schedule.kept.push_back({value, residency});
    const StageList list = distribute(facts, schedule.kept);
    const ResourceEstimate estimate = estimate_row_resources(facts, schedule, list, h200);
    return estimate_row_work(facts, schedule, list, estimate, h200).issue_slots;
  };
  const double stages = 2.0;
  EXPECT_NEAR(slots(Residency::kShared) - slots(Residency::kRegister), stages * 8192 * 8192 / 8.0,
              1.0);
}

/// Few warps leave issue slots empty.
TEST(CostModelTest, IssueTakesBusyWarps) {
  const DeviceLimits h200 = *find_device("H200");
  const WorkEstimate work{.issue_slots = 1e11, .thread_instructions = 100.0};
  const auto issue = [&](int64_t blocks_per_sm, const CostConstants& constants) {
    ResourceEstimate estimate{.registers = 32, .threads = 128, .blocks = h200.sm_count * 160};
    complete(estimate, h200, blocks_per_sm);
    estimate.blocks_per_sm = blocks_per_sm;
    return predict(work, estimate, with(h200, constants)).issue_us;
  };
  EXPECT_NEAR(issue(4, kConstants) / issue(10, kConstants),
              std::pow(40.0 / 16.0, kConstants.non_persistent.warps_exponent), 1e-9);
  EXPECT_NEAR(issue(16, kConstants) / issue(10, kConstants),
              std::pow(40.0 / 64.0, kConstants.non_persistent.warps_exponent), 1e-9);
  CostConstants steep = kConstants;
  steep.non_persistent.warps_exponent *= 2.0;
  EXPECT_GT(issue(4, steep), issue(4, kConstants));
}

TEST(CostModelTest, WarpsHideWaitsOneByOneWhereNoBarrierTiesThem) {
  const DeviceLimits h200 = *find_device("H200");
  ResourceEstimate estimate{.registers = 32, .threads = 512, .blocks = h200.sm_count};
  complete(estimate, h200, 1);
  WorkEstimate work{.block_latency_ns = 1000.0};
  const double together = predict(work, estimate, h200).exposed_us;
  work.has_barriers = false;
  CostConstants constants = kConstants;
  EXPECT_LT(predict(work, estimate, with(h200, constants)).exposed_us, together);
  constants.free_warps = 16.0;  // As many as the block has.
  EXPECT_DOUBLE_EQ(predict(work, estimate, with(h200, constants)).exposed_us, together);
}

}  // namespace sinter::cost_model_test
