#include "scheduler/budgets/resources.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace sinter::resources_test {

using testing::HasSubstr;

struct Occupancy {
  const char* device;
  int64_t threads, registers, shared_bytes;
  int64_t blocks;
};

// cudaOccMaxActiveBlocksPerMultiprocessor of cuda_occupancy.h (CUDA 13.0), with opt-in shared
// memory and the largest carve-out.
constexpr Occupancy kOccupancies[] = {
    {"H200", 256, 32, 0, 8},     {"H200", 256, 40, 0, 6},      {"H200", 1024, 64, 0, 1},
    {"H200", 1024, 65, 0, 0},    {"H200", 96, 40, 0, 16},      {"H200", 32, 16, 0, 32},
    {"H200", 128, 255, 0, 2},    {"H200", 128, 32, 65536, 3},  {"H200", 128, 32, 232448, 1},
    {"H200", 64, 40, 0, 24},     {"A100", 256, 128, 40000, 2}, {"A100", 512, 33, 0, 3},
    {"H200", 32, 16, 6272, 32},  {"H200", 32, 16, 6400, 31},   {"H200", 32, 16, 115712, 2},
    {"H200", 32, 16, 115840, 1}, {"RTX 4090", 1024, 32, 0, 1}, {"RTX 4090", 128, 32, 1000, 12},
    {"RTX 4090", 64, 24, 0, 24},
};

TEST(ResourcesTest, ResidentBlocksAgreeWithTheOccupancyCalculator) {
  for (const Occupancy& o : kOccupancies) {
    EXPECT_EQ(resident_blocks(*find_device(o.device), o.threads, o.registers, o.shared_bytes),
              o.blocks)
        << o.device << ": " << o.threads << " threads, " << o.registers << " registers, "
        << o.shared_bytes << " shared bytes";
  }
}

RC_GTEST_PROP(ResourcesTest, RegisterCapIsTheMostThatKeepsTheBlocksResident, ()) {
  const DeviceLimits limits = *rc::gen::elementOf(
      std::vector<DeviceLimits>(device_presets().begin(), device_presets().end()));
  const auto threads = *rc::gen::inRange<int64_t>(1, limits.threads_per_block + 1);
  const int64_t warps = (threads + 31) / 32;
  const int64_t most = std::min(limits.blocks_per_sm, limits.threads_per_sm / (32 * warps));
  const auto blocks = *rc::gen::inRange<int64_t>(1, most + 1);
  const int64_t cap = register_cap(limits, threads, blocks);
  RC_ASSERT(resident_blocks(limits, threads, cap, 0) >= blocks);
  RC_ASSERT(cap == limits.registers_per_thread ||
            resident_blocks(limits, threads, cap + 1, 0) < blocks);
}

RC_GTEST_PROP(ResourcesTest, NeedingMoreNeverFitsMoreBlocks, ()) {
  const DeviceLimits limits = *find_device("H200");
  const auto threads = *rc::gen::inRange<int64_t>(1, 1025);
  const auto registers = *rc::gen::inRange<int64_t>(1, 256);
  const auto shared = *rc::gen::inRange<int64_t>(0, 232449);
  const int64_t blocks = resident_blocks(limits, threads, registers, shared);
  RC_ASSERT(resident_blocks(limits, threads + 1, registers, shared) <= blocks);
  RC_ASSERT(resident_blocks(limits, threads, registers + 1, shared) <= blocks);
  RC_ASSERT(resident_blocks(limits, threads, registers, shared + 1) <= blocks);
}

TEST(ResourcesTest, CompleteDerivesWavesAndSpills) {
  const DeviceLimits limits = *find_device("H200");
  ResourceEstimate estimate{.registers = 80, .threads = 256, .blocks = 132 * 8 * 3};
  complete(estimate, limits, 8);
  EXPECT_EQ(estimate.register_cap, 32);
  EXPECT_GT(estimate.spilled_registers, 0);
  EXPECT_LE(estimate.spilled_registers, 80 - 32);
  EXPECT_EQ(estimate.blocks_per_sm, 8);
  EXPECT_DOUBLE_EQ(estimate.waves, 3.0);
  complete(estimate, limits, 1);
  EXPECT_EQ(estimate.spilled_registers, 0);
  EXPECT_EQ(estimate.blocks_per_sm, 3);
}

// ptxas can reorder what it computes, but holds every element that was loaded.
TEST(ResourcesTest, LoadedElementsTakeNoFewerRegisters) {
  EXPECT_EQ(fewest_registers(100, 0), 80);
  EXPECT_EQ(fewest_registers(100, 50), 90);
  EXPECT_EQ(fewest_registers(100, 100), 100);
  EXPECT_EQ(fewest_registers(100, 200), 100) << "an estimate below what is loaded";
  const DeviceLimits limits = *find_device("H200");
  // 512 threads of which each holds 125 floats of a row: 29 registers more than they have.
  ResourceEstimate estimate{
      .registers = 164, .tile_registers = 128, .threads = 512, .blocks = 4096};
  complete(estimate, limits, 1);
  EXPECT_EQ(estimate.register_cap, 128);
  EXPECT_EQ(estimate.spilled_registers, 28);
}

TEST(ResourcesTest, FitsNamesTheBudgetThatBreaks) {
  const DeviceLimits limits = *find_device("L4");
  ResourceEstimate estimate{.registers = 32, .threads = 256, .blocks = 1};
  complete(estimate, limits, 1);
  EXPECT_EQ(fits(estimate, limits), std::nullopt);

  ResourceEstimate wide = estimate;
  wide.threads = 2048;
  ASSERT_TRUE(fits(wide, limits).has_value());
  EXPECT_THAT(text_of(*fits(wide, limits)), HasSubstr("value 2048, limit 1024 threads"));

  ResourceEstimate shared = estimate;
  shared.shared_bytes = 200000;
  complete(shared, limits, 1);
  ASSERT_TRUE(fits(shared, limits).has_value());
  EXPECT_THAT(text_of(*fits(shared, limits)), HasSubstr("value 200000, limit 101376 bytes"));

  DeviceLimits small = limits;
  small.registers_per_sm = 1024;
  complete(estimate, small, 1);
  ASSERT_TRUE(fits(estimate, small).has_value());
}

TEST(Fits, RefusesGridsThatNoLaunchTakes) {
  ResourceEstimate estimate{.registers = 32, .threads = 128, .blocks_per_sm = 1};
  estimate.blocks = 2'147'483'647;
  EXPECT_FALSE(fits(estimate, *find_device("H200")));
  ++estimate.blocks;
  const auto rejection = fits(estimate, *find_device("H200"));
  ASSERT_TRUE(rejection);
  EXPECT_EQ(rejection->limit, 2'147'483'647.0);
  EXPECT_EQ(rejection->value, 2'147'483'648.0);
}

}  // namespace sinter::resources_test
