#include "runtime/driver/device_query.h"

#include <gmock/gmock.h>

#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_context.h"
#include "tests/support/fake_driver.h"

namespace sinter::device_query_test {

using ::testing::HasSubstr;

TEST(DeviceQuery, GivesBackThePresetOfEveryProduct) {
  for (const DeviceLimits& preset : device_presets()) {
    FakeDriver driver(preset);
    DeviceLimits expected = preset;
    expected.name = "NVIDIA " + preset.name;
    const auto limits = query_device(driver, 0);
    ASSERT_TRUE(limits) << limits.error().text();
    EXPECT_EQ(*limits, expected) << preset.name;
  }
}

TEST(DeviceQuery, TakesBudgetsFromTheDriverAndRatesFromThePreset) {
  FakeDriver driver(*find_device("H200"));
  driver.set_attribute(DeviceProperty::kSharedBytesPerSm, 200'000);
  driver.set_attribute(DeviceProperty::kClockRateKhz, 1'000'000);
  const auto limits = query_device(driver, 0).value();
  EXPECT_EQ(limits.shared_bytes_per_sm, 200'000);
  EXPECT_EQ(limits.clock_mhz, find_device("H200")->clock_mhz);
}

// An L40S is no L4, a GB200 no B200, and an H100 with other memory no H100 of the preset.
TEST(DeviceQuery, TakesRatesFromTheDriverForUnknownProducts) {
  DeviceLimits made_up = *find_device("L4");
  made_up.name = "L40S";
  made_up.sm_count = 142;
  made_up.memory_bytes_per_us = 864e3;
  made_up.clock_mhz = 2500;
  FakeDriver driver(made_up);
  const auto limits = query_device(driver, 0).value();
  EXPECT_NEAR(limits.memory_bytes_per_us, 864e3, 1.0);
  EXPECT_EQ(limits.clock_mhz, 2500);
  EXPECT_EQ(limits.sm_count, 142);
  DeviceLimits expected = limits;
  derive_bytes_in_flight(expected);
  EXPECT_EQ(limits.bytes_in_flight_per_sm, expected.bytes_in_flight_per_sm);
}

TEST(DeviceQuery, TellsMemoryVariantsOfOneProductApart) {
  DeviceLimits slow = *find_device("A100");  // The 40 GB version: same name and SMs.
  slow.memory_bytes_per_us = 1555e3;
  FakeDriver driver(slow);
  EXPECT_NEAR(query_device(driver, 0)->memory_bytes_per_us, 1555e3, 1.0);
}

TEST(DeviceQuery, DoesWithoutClocksThatADriverNoLongerReports) {
  FakeDriver driver(*find_device("H200"));
  for (const auto property : {DeviceProperty::kClockRateKhz, DeviceProperty::kMemoryClockRateKhz}) {
    driver.set_attribute(property, 0, DriverStatus::kInvalidValue);
  }
  EXPECT_EQ(query_device(driver, 0)->memory_bytes_per_us, find_device("H200")->memory_bytes_per_us);
}

TEST(DeviceQuery, AMissingBudgetIsAnError) {
  FakeDriver driver;
  driver.set_attribute(DeviceProperty::kRegistersPerSm, 0, DriverStatus::kInvalidValue);
  const auto limits = query_device(driver, 0);
  ASSERT_FALSE(limits);
  EXPECT_EQ(limits.error().kind, ErrorKind::kDeviceError);
  EXPECT_THAT(limits.error().message, HasSubstr("cuDeviceGetAttribute"));
}

TEST(DeviceQuery, ListsEveryDevice) {
  FakeDriver driver(*find_device("B200"), 3);
  EXPECT_EQ(query_devices(driver)->size(), 3U);
  FakeDriver none(*find_device("B200"), 0);
  EXPECT_TRUE(query_devices(none)->empty());
  EXPECT_FALSE(query_device(none, 0));
}

TEST(DeviceQuery, KnowsWhoseMemoryAnAddressIs) {
  FakeDriver driver;
  const auto context = DeviceContext::retain(driver, 0).value();
  const auto current = CurrentContext::enter(driver, context).value();
  const auto buffer = DeviceBuffer::allocate(driver, 64).value();
  EXPECT_EQ(device_of(driver, buffer.pointer() + 63, "tensor x").value(), 0);

  const auto foreign = device_of(driver, buffer.pointer() + 64, "tensor x");
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(foreign.error().message, HasSubstr("tensor x at 0x"));
}

}  // namespace sinter::device_query_test
