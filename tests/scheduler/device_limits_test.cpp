#include "scheduler/budgets/device_limits.h"

#include <gmock/gmock.h>

#include <set>

namespace sinter::device_limits_test {

using testing::ElementsAre;

TEST(DeviceLimitsTest, PresetsStandInOrder) {
  std::vector<std::string> names;
  for (const DeviceLimits& limits : device_presets()) names.push_back(limits.name);
  EXPECT_THAT(names, ElementsAre("A100", "H100", "H200", "B200", "GB200", "RTX PRO 6000",
                                 "RTX 4090", "L4"));
}

TEST(DeviceLimitsTest, EveryPresetIsConsistent) {
  for (const DeviceLimits& limits : device_presets()) {
    SCOPED_TRACE(limits.name);
    EXPECT_GT(limits.sm_count, 0);
    EXPECT_EQ(limits.registers_per_sm, 65536);
    EXPECT_EQ(limits.registers_per_thread, 255);
    EXPECT_EQ(limits.threads_per_sm % 32, 0);
    EXPECT_LE(limits.threads_per_block, limits.threads_per_sm);
    // A full block of the most threads gets the registers a kernel cannot do without.
    EXPECT_GE(limits.registers_per_sm / limits.threads_per_sm, 32);
    EXPECT_EQ(limits.shared_bytes_per_block + limits.shared_bytes_reserved,
              limits.shared_bytes_per_sm);
    EXPECT_GT(limits.l2_bytes, limits.shared_bytes_per_sm);
    EXPECT_GT(limits.memory_bytes_per_us, 0.0);
    EXPECT_GT(limits.clock_mhz, 0.0);
    EXPECT_GT(limits.copy_efficiency, 0.5);
    EXPECT_LE(limits.copy_efficiency, limits.read_efficiency);
    EXPECT_LT(limits.read_efficiency, 1.0);
    EXPECT_GT(limits.bytes_in_flight_per_sm, 0.0);
    // Loads in flight that saturate memory must fit what an SM can hold.
    EXPECT_LT(limits.bytes_in_flight_per_sm, 4.0 * static_cast<double>(limits.registers_per_sm));
    EXPECT_EQ(limits.has_bulk_copy, limits.compute_major >= 9);
    EXPECT_EQ(limits.has_dependent_launch, limits.compute_major >= 9);
    EXPECT_EQ(limits.has_wgmma, limits.compute_major == 9);
  }
}

TEST(DeviceLimitsTest, L1AndSharedMemoryShareOneStore) {
  EXPECT_EQ(unified_l1_bytes(*find_device("A100")), 192 * 1024);
  EXPECT_EQ(unified_l1_bytes(*find_device("H200")), 256 * 1024);
  EXPECT_EQ(unified_l1_bytes(*find_device("B200")), 256 * 1024);
  EXPECT_EQ(unified_l1_bytes(*find_device("L4")), 128 * 1024);
  EXPECT_EQ(unified_l1_bytes(*find_device("RTX PRO 6000")), 128 * 1024);
}

TEST(DeviceLimitsTest, EveryPresetIsFoundByItsNameInAnySpelling) {
  std::set<std::string> names;
  for (const DeviceLimits& limits : device_presets()) {
    EXPECT_EQ(find_device(limits.name), limits);
    EXPECT_TRUE(names.insert(limits.name).second) << limits.name;
  }
  EXPECT_EQ(find_device("rtx-4090")->name, "RTX 4090");
  EXPECT_EQ(find_device("RTX_pro6000")->name, "RTX PRO 6000");
  EXPECT_EQ(find_device("h200")->name, "H200");
  EXPECT_EQ(find_device("H20"), std::nullopt);
  EXPECT_EQ(find_device(""), std::nullopt);
}

TEST(DeviceLimitsTest, ArchitecturesHaveTheirVariantsFromNineOn) {
  EXPECT_EQ(architecture_of(*find_device("A100")), "sm_80");
  EXPECT_EQ(architecture_of(*find_device("L4")), "sm_89");
  EXPECT_EQ(architecture_of(*find_device("H200")), "sm_90a");
  EXPECT_EQ(architecture_of(*find_device("B200")), "sm_100a");
  EXPECT_EQ(architecture_of(*find_device("RTX PRO 6000")), "sm_120a");
}

TEST(DeviceLimitsTest, LittlesLawIsBandwidthTimesLatency) {
  // 32 KiB per SM saturate an H100 of 3.35 TB/s: the statement the latency was derived from.
  const DeviceLimits h100 = *find_device("H100");
  EXPECT_NEAR(h100.bytes_in_flight_per_sm, 32768.0, 0.005 * 32768.0);
  EXPECT_DOUBLE_EQ(little_bytes_per_sm(1000.0, 500.0, 10), 50.0);
  DeviceLimits twice = h100;
  twice.memory_bytes_per_us *= 2.0;
  derive_bytes_in_flight(twice);
  EXPECT_DOUBLE_EQ(twice.bytes_in_flight_per_sm, 2.0 * h100.bytes_in_flight_per_sm);
}

}  // namespace sinter::device_limits_test
