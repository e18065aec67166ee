#include "scheduler/budgets/register_estimate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fusion_ir/parser.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/analysis/stages.h"

namespace sinter::register_estimate_test {

/// Of a sum over `function` of each element.
SegmentFacts sum_of(std::string_view function) {
  const auto fusion = parse_fusion(fmt::format(R"(
fusion @f extents(rows, cols) {{
  %v0 x : bf16[rows, cols] = input
  %v1 : f32[rows, cols] = cast %v0
  %v2 : f32[rows, cols] = {} %v1
  %v3 y : f32[rows] = reduce.sum %v2 over(1)
  return %v3
}})",
                                               function));
  EXPECT_TRUE(fusion.has_value());
  const auto extents = bind_extents(*fusion, {{"rows", 4096}, {"cols", 32768}});
  return analyse(specialize(*fusion, *extents)).value();
}

Schedule looped(int64_t unroll) {
  return {.family = "looped",
          .parameters = LoopedParameters{},
          .threads_per_row = 256,
          .vector_width = 8,
          .unroll = unroll};
}

// Elements of a loop that takes logarithms on a fast path overlap, and can begin again.
TEST(RegisterEstimate, FastPathsTakeRegisters) {
  const SegmentFacts plain = sum_of("exp");
  const SegmentFacts logarithms = sum_of("log");
  const auto registers = [](const SegmentFacts& facts) {
    return estimate_registers(facts, looped(2), distribute(facts, {}));
  };
  EXPECT_NEAR(static_cast<double>(registers(logarithms) - registers(plain)), 10.0, 1.0);
}

TEST(RegisterEstimate, TilesAreWhatIsLoadedAtOnce) {
  const SegmentFacts facts = sum_of("exp");
  const StageList list = distribute(facts, {});
  EXPECT_EQ(estimate_tile_registers(facts, looped(1), list), 4) << "8 bf16";
  EXPECT_EQ(estimate_tile_registers(facts, looped(8), list), 32);
}

// Schedules that differ in their threads alone have the widest stage in common.
TEST(RegisterEstimate, StagesAreWalkedOnceForAllThatTheyAreTheSameFor) {
  const SegmentFacts facts = sum_of("exp");
  const StageList list = distribute(facts, {});
  const AccessKinds kinds(facts, looped(1));
  StageRegisters shared(facts, list, kinds);
  const auto expect_equal = [&](const Schedule& schedule) {
    const RegisterEstimate estimate = shared.estimate(schedule);
    EXPECT_EQ(estimate.registers, estimate_registers(facts, schedule, list));
    EXPECT_EQ(estimate.tile, estimate_tile_registers(facts, schedule, list));
    EXPECT_EQ(estimate.prefetched, estimate_prefetch_registers(facts, schedule));
  };
  for (const int64_t unroll : {1, 2}) {
    for (const int64_t threads : {64, 128, 256}) {
      Schedule schedule = looped(unroll);
      schedule.threads_per_row = threads;
      schedule.rows_per_block = 256 / threads;
      expect_equal(schedule);
    }
    EXPECT_EQ(shared.walks(), static_cast<size_t>(unroll));
  }
  // What is held in registers takes those of its batches.
  const ValueId x = facts.fusion.inputs.front();
  for (const Residency residency : {Residency::kRegister, Residency::kShared}) {
    Schedule schedule = looped(1);
    schedule.parameters = MultiWaveParameters{};
    schedule.kept = {{x, residency}};
    const size_t walks = shared.walks();
    for (const int64_t threads : {512, 1024}) {
      schedule.threads_per_row = threads;
      expect_equal(schedule);
    }
    EXPECT_EQ(shared.walks(), walks + (residency == Residency::kRegister ? 2 : 1));
  }
}

// Statistics of a chunk sweep it twice, and elements of the second sweep start before the first has
// ended.
TEST(RegisterEstimate, SecondSweepsTakeRegisters) {
  const auto fusion = parse_fusion(R"(
fusion @f extents(rows, cols) {
  %v0 x : bf16[rows, cols] = input
  %v1 : f32[rows, cols] = cast %v0
  %v2 mean, %v3 m2 : f32[rows], f32[rows] = welford %v1 over(1)
  return %v2, %v3
})");
  ASSERT_TRUE(fusion.has_value()) << fusion.error().text();
  const auto extents = bind_extents(*fusion, {{"rows", 4096}, {"cols", 32768}});
  const SegmentFacts twice = analyse(specialize(*fusion, *extents)).value();
  const SegmentFacts once = sum_of("exp");
  const auto grows = [](const SegmentFacts& facts) {
    const StageList list = distribute(facts, {});
    return estimate_registers(facts, looped(4), list) - estimate_registers(facts, looped(2), list);
  };
  const double swept = 0.4 * 2 * 8;  // Two vectors of eight elements more.
  EXPECT_NEAR(static_cast<double>(grows(twice) - grows(once)), swept, 1.0);
}

}  // namespace sinter::register_estimate_test
