#include "runtime/driver/event_timer.h"

#include <gmock/gmock.h>

#include "runtime/driver/device_context.h"
#include "runtime/driver/prepared_launch.h"
#include "runtime/execute/loaded_kernel.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/support/fake_driver.h"

namespace sinter::event_timer_test {

using ::testing::HasSubstr;

class EventTimerTest : public ::testing::Test {
 protected:
  EventTimerTest() {
    KernelSource source;
    source.entry = "sample_0";
    source.params = {DType::kI64};
    source.param_values = {1};
    prepared_.emplace(PreparedLaunch::prepare(driver_, kernel_.function(), source).value());
  }

  [[nodiscard]] Result<Timing> time(const TimingOptions& options) {
    return time_launches(
        driver_, 0, nullptr, [&](StreamHandle stream) { return prepared_->launch(stream, {}); },
        options);
  }

  FakeDriver driver_{*find_device("H200"), 1, int64_t{64} << 20};
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
  LoadedKernel kernel_ = LoadedKernel::load(driver_, sample_kernel(), 0).value();
  std::optional<PreparedLaunch> prepared_;
};

TEST_F(EventTimerTest, ReturnsTheSamplesAfterTheWarmupAndTheirMedian) {
  // Warm-up is slow; then 10, 11, ... in the order of the runs, with one outlier.
  driver_.set_launch_us([](int64_t launch) {
    if (launch < 4) return 1000.0;
    return launch == 8 ? 500.0 : static_cast<double>(launch) + 6.0;
  });
  const auto timing = time({.warmups = 4, .samples = 15, .scratch_bytes = 1 << 20}).value();
  ASSERT_EQ(timing.samples_us.size(), 15U);
  EXPECT_NEAR(timing.samples_us.front(), 10.0, 1e-2);  // The events' floats carry ms.
  EXPECT_NEAR(timing.samples_us[4], 500.0, 1e-2);
  EXPECT_NEAR(timing.median_us, 18.0, 1e-2);
}

TEST_F(EventTimerTest, WritesScratchMemoryBeforeEveryRunButNotWithinIt) {
  const auto cold = time({.samples = 20, .scratch_bytes = 1 << 20}).value();
  EXPECT_EQ(driver_.calls(DriverCall::kFillAsync), 20);
  const auto warm = time({.samples = 20, .cold_l2 = false}).value();
  EXPECT_EQ(driver_.calls(DriverCall::kFillAsync), 20);
  EXPECT_NEAR(cold.median_us, warm.median_us, 1e-2);  // The fill takes 100 us of fake time.
}

TEST_F(EventTimerTest, ScratchMemoryCoversTheL2FourTimes) {
  // More than this device can allocate: the error names what was asked for.
  const auto h200 = time({});
  ASSERT_FALSE(h200);
  EXPECT_EQ(h200.error().measured, int64_t{256} << 20);
  driver_.set_attribute(DeviceProperty::kL2Bytes, 128 << 20);
  EXPECT_EQ(time({}).error().measured, int64_t{512} << 20);
}

// What reads asked L2 to keep is given up where they are over and the write has not begun.
TEST_F(EventTimerTest, WaitsForEveryRunBeforeItEmptiesL2AndElseOnceAfterAll) {
  ASSERT_TRUE(time({.samples = 20, .scratch_bytes = 1024}));
  EXPECT_EQ(driver_.calls(DriverCall::kStreamSynchronize), 20 + 1);
  EXPECT_EQ(driver_.calls(DriverCall::kContextResetPersistingL2), 20);
  ASSERT_TRUE(time({.samples = 20, .cold_l2 = false}));
  EXPECT_EQ(driver_.calls(DriverCall::kStreamSynchronize), 20 + 1 + 1);
  EXPECT_EQ(driver_.calls(DriverCall::kContextResetPersistingL2), 20);
  EXPECT_EQ(driver_.calls(DriverCall::kEventSynchronize), 0);
}

TEST_F(EventTimerTest, EmptiesL2BetweenTheEndOfARunAndTheNext) {
  constexpr auto kWait = DriverCall::kStreamSynchronize;
  constexpr auto kReset = DriverCall::kContextResetPersistingL2;
  constexpr auto kFill = DriverCall::kFillAsync;
  constexpr auto kRun = DriverCall::kLaunch;
  driver_.keep_order();
  ASSERT_TRUE(time({.warmups = 1, .samples = 15, .scratch_bytes = 1024}));
  std::vector<DriverCall> expected = {kRun};
  for (int run = 0; run < 15; ++run) expected.insert(expected.end(), {kWait, kReset, kFill, kRun});
  expected.push_back(kWait);
  EXPECT_EQ(driver_.order_of({kWait, kReset, kFill, kRun}), expected);
}

TEST_F(EventTimerTest, WritesAllTheSameWhereL2KeepsNothing) {
  driver_.fail_next(DriverCall::kContextResetPersistingL2, DriverStatus::kNotSupported);
  EXPECT_TRUE(time({.samples = 15, .scratch_bytes = 1024}));
  EXPECT_EQ(driver_.calls(DriverCall::kFillAsync), 15);
}

TEST_F(EventTimerTest, RefusesFewerThan15Samples) {
  const auto timing = time({.samples = 14});
  ASSERT_FALSE(timing);
  EXPECT_EQ(timing.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(timing.error().measured, 14);
  EXPECT_EQ(timing.error().limit, 15);
}

TEST_F(EventTimerTest, EveryFailureIsReturnedAndLeaksNothing) {
  const int64_t live_before = driver_.live_objects();
  for (const DriverCall call :
       {DriverCall::kMemoryAllocate, DriverCall::kEventCreate, DriverCall::kFillAsync,
        DriverCall::kContextResetPersistingL2, DriverCall::kEventRecord, DriverCall::kLaunch,
        DriverCall::kStreamSynchronize, DriverCall::kEventElapsed}) {
    driver_.fail_next(call, DriverStatus::kIllegalAddress);
    const auto timing = time({.scratch_bytes = 1024});
    ASSERT_FALSE(timing) << name_of(call);
    EXPECT_THAT(timing.error().message, HasSubstr(std::string(name_of(call))));
    EXPECT_EQ(driver_.live_objects(), live_before) << name_of(call);
    EXPECT_EQ(driver_.allocated_bytes(), 0) << name_of(call);
  }
}

TEST(Median, IsTheMiddle) {
  EXPECT_EQ(median({3.0}), 3.0);
  EXPECT_EQ(median({9.0, 1.0, 4.0}), 4.0);
  EXPECT_EQ(median({9.0, 1.0, 4.0, 6.0}), 5.0);
  EXPECT_THROW((void)median({}), SinterException);
}

}  // namespace sinter::event_timer_test
