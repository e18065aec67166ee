#include "runtime/tuning/device_measurer.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "codegen/cuda/emit.h"
#include "runtime/check/host_execution.h"
#include "runtime/driver/device_context.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/tuning/tune.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"
#include "tests/support/h200.h"

namespace sinter::device_measurer_test {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kRows = 24;
constexpr int64_t kColumns = 512;
const ExtentValues kSizes = {{"rows", kRows}, {"cols", kColumns}};

/// Softmax on a fake device: every candidate's kernel is compiled by NVRTC, and does on the host
/// what it should.
class DeviceMeasurerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!compiler_) GTEST_SKIP() << "no NVRTC: " << compiler_.error().message;
    driver_.set_kernel(
        "softmax_f32", 3, [this](const LaunchConfig& config, std::span<const uint64_t> arguments) {
          softmax(std::bit_cast<const float*>(arguments[0]), std::bit_cast<float*>(arguments[1]));
          if (damage_) damage_(config, std::bit_cast<float*>(arguments[1]));
        });
  }

  static void softmax(const float* x, float* y) {
    for (int64_t row = 0; row < kRows; ++row, x += kColumns, y += kColumns) {
      float sum = 0.0F;  // So that errors are there, and small.
      for (int64_t i = 0; i < kColumns; ++i) sum += std::exp(x[i]);
      for (int64_t i = 0; i < kColumns; ++i) y[i] = std::exp(x[i]) / sum;
    }
  }

  [[nodiscard]] Result<std::unique_ptr<DeviceMeasurer>> make(DeviceMeasurerOptions options = {}) {
    options.scratch_bytes = 4096;
    return DeviceMeasurer::create(driver_, *compiler_, cache_, options);
  }
  Result<TuneResult> run(CandidateMeasurer& measurer, TuneOptions options = {}) {
    options.top = 3;
    options.budget_seconds = 300.0;
    return tune(fusion_, kSizes, kLimits, {.families = builtin_families()}, measurer, options);
  }

  Result<NvrtcCompiler> compiler_ = NvrtcCompiler::open();
  KernelCache cache_{{}};
  FakeDriver driver_{kLimits};
  Fusion fusion_ = find_canned_fusion("softmax_f32")->build();
  std::function<void(const LaunchConfig&, float* y)> damage_;
};

TEST_F(DeviceMeasurerTest, ChecksAndTimesEveryCandidate) {
  driver_.set_launch_us([](int64_t) { return 12.5; });
  {
    auto measurer = make({.compile_threads = 2});
    ASSERT_TRUE(measurer) << measurer.error().text();
    const auto result = run(**measurer);
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(result->stop, TuneStop::kFinished);
    const TunedKernel& kernel = result->kernels.front();
    ASSERT_THAT(kernel.measurements, SizeIs(4));
    for (const TuneMeasurement& measurement : kernel.measurements) {
      EXPECT_NEAR(measurement.timed.median_us, 12.5, 1e-2) << measurement.because;
      EXPECT_EQ(measurement.timed.samples, kLeastTuningSamples);
      EXPECT_GT(measurement.worst_ratio, 0.0) << "it was compared";
      EXPECT_GT(measurement.registers, 0);
    }
    EXPECT_EQ(kernel.winner, 0U) << "all take as long";
    EXPECT_EQ(driver_.calls(DriverCall::kContextResetPersistingL2),
              driver_.calls(DriverCall::kGraphLaunch))
        << "every replay finds nothing in L2";
  }
  EXPECT_EQ(driver_.live_objects(), 0);
  EXPECT_EQ(driver_.allocated_bytes(), 0);
  EXPECT_EQ(driver_.capture_violations(), 0);
}

TEST_F(DeviceMeasurerTest, FindsTheFasterOne) {
  uint32_t untuned = 0;
  uint32_t launched = 0;
  damage_ = [&](const LaunchConfig& config, float*) {
    launched = config.grid_x * 65536 + config.block_x;
    if (untuned == 0) untuned = launched;
  };
  driver_.set_launch_us([&](int64_t) { return launched == untuned ? 12.0 : 6.0; });
  auto measurer = make();
  ASSERT_TRUE(measurer) << measurer.error().text();
  const auto result = run(**measurer);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_NE(result->kernels.front().winner, 0U);
  EXPECT_LT(result->kernels.front().tuned_us, result->kernels.front().untuned_us);
}

TEST_F(DeviceMeasurerTest, FindsWrongResults) {
  std::optional<std::pair<uint32_t, uint32_t>> untuned;
  damage_ = [&](const LaunchConfig& config, float* y) {
    const std::pair shape(config.grid_x, config.block_x);
    if (!untuned) untuned = shape;
    if (shape != *untuned) y[kRows * kColumns - 1] *= 1.01F;
  };
  auto measurer = make();
  ASSERT_TRUE(measurer) << measurer.error().text();
  const auto result = run(**measurer);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_GE(result->wrong_results(), 1U);
  EXPECT_EQ(result->kernels.front().winner, 0U);
  for (const TuneMeasurement& measurement : result->kernels.front().measurements) {
    if (measurement.verdict != TuneVerdict::kWrongResults) continue;
    EXPECT_THAT(measurement.because, HasSubstr("1 of 12288 elements outside their bound"));
  }
}

TEST_F(DeviceMeasurerTest, WhatIsNotWrittenIsFound) {
  // The outputs of the candidate before must not pass for those of one that writes nothing.
  bool first = true;
  driver_.set_kernel(
      "softmax_f32", 3, [&](const LaunchConfig&, std::span<const uint64_t> arguments) {
        if (!std::exchange(first, false)) return;
        softmax(std::bit_cast<const float*>(arguments[0]), std::bit_cast<float*>(arguments[1]));
      });
  auto measurer = make();
  ASSERT_TRUE(measurer) << measurer.error().text();
  const auto result = run(**measurer);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->wrong_results(), 3U);
}

TEST_F(DeviceMeasurerTest, ALaunchThatDoesNotEndIsReported) {
  auto measurer = make({.launch_limit_seconds = 0.05});
  ASSERT_TRUE(measurer) << measurer.error().text();
  driver_.set_hanging(true);
  const auto result = run(**measurer);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->stop, TuneStop::kDevice);
  ASSERT_TRUE(result->trouble);
  EXPECT_EQ(result->trouble->kind, ErrorKind::kDeviceError);
  EXPECT_THAT(result->trouble->message, HasSubstr("did not end within 0.05 seconds"));
  EXPECT_EQ(result->kernels.front().measurements.front().verdict, TuneVerdict::kFailed);
  EXPECT_TRUE((*measurer)->is_hanging());
  const int64_t freed = driver_.calls(DriverCall::kMemoryFree);
  measurer->reset();
  EXPECT_EQ(driver_.calls(DriverCall::kMemoryFree), freed) << "freeing would wait for the launch";
}

TEST_F(DeviceMeasurerTest, IsRefusedDuringCapture) {
  const DeviceContext context = DeviceContext::retain(driver_, 0).value();
  const CurrentContext current = CurrentContext::enter(driver_, context).value();
  StreamHandle stream = nullptr;
  ASSERT_EQ(driver_.stream_create(&stream, 0), DriverStatus::kSuccess);
  auto measurer = make({.stream = stream});
  ASSERT_TRUE(measurer) << measurer.error().text();
  ASSERT_EQ(driver_.capture_begin(stream, CaptureMode::kGlobal), DriverStatus::kSuccess);
  const auto refused = run(**measurer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("captured"));
  const auto not_made = make({.stream = stream});
  ASSERT_FALSE(not_made);
  EXPECT_THAT(not_made.error().message, HasSubstr("captured"));
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
  GraphHandle graph = nullptr;
  ASSERT_EQ(driver_.capture_end(stream, &graph), DriverStatus::kSuccess);
  EXPECT_TRUE(run(**measurer));
}

TEST_F(DeviceMeasurerTest, MeasuresOnTheCallersInputs) {
  int asked = 0;
  float seen = 0.0F;
  damage_ = [&](const LaunchConfig&, float* y) { seen = y[0]; };
  auto measurer = make({.inputs = [&](const Fusion& fusion, const Binding& binding) {
    ++asked;
    auto inputs = sample_inputs(fusion, binding, 1);
    for (int64_t i = 0; i < kRows * kColumns; ++i)
      reinterpret_cast<float*>(inputs.front().data())[i] = 0.5F;
    return inputs;
  }});
  ASSERT_TRUE(measurer) << measurer.error().text();
  const auto result = run(**measurer);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(result->wrong_results(), 0U);
  EXPECT_TRUE(result->kernels.front().is_measured());
  EXPECT_NEAR(seen, 1.0F / kColumns, 1e-6F) << "all elements were equal";
}

TEST_F(DeviceMeasurerTest, InputsThatDoNotFitAreRefused) {
  auto measurer = make({.inputs = [](const Fusion& fusion, const Binding&) {
    const Binding other{.symbol_sizes = {kRows, kColumns / 2}};
    return sample_inputs(fusion, other, 1);
  }});
  ASSERT_TRUE(measurer) << measurer.error().text();
  const auto result = run(**measurer);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_FALSE(result->kernels.front().is_measured());
  EXPECT_THAT(result->kernels.front().decision.because, HasSubstr("not measured"));
}

TEST_F(DeviceMeasurerTest, MoreThanTheOracleChecksIsLeft) {
  // A transpose has no slices.
  auto measurer = make({.most_elements = 1000});
  ASSERT_TRUE(measurer) << measurer.error().text();
  const auto result = tune(find_canned_fusion("transpose_2d")->build(), kSizes, kLimits,
                           {.families = builtin_families()}, **measurer, {.top = 1});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_FALSE(result->kernels.front().is_measured());
  EXPECT_THAT(result->kernels.front().decision.because, HasSubstr("more than the oracle"));
}

TEST(DeviceMeasurerGpuTest, TunesOnTheDevice) {
  auto driver = cuda_driver();
  if (!driver) GTEST_SKIP() << "no device: " << driver.error().message;
  auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const DeviceLimits limits = query_device(**driver, 0).value();
  KernelCache cache({});
  auto measurer = DeviceMeasurer::create(**driver, *compiler, cache, {.compile_threads = 4});
  ASSERT_TRUE(measurer) << measurer.error().text();
  for (const char* name : {"rms_norm", "layer_norm_backward"}) {
    const auto result = tune(find_canned_fusion(name)->build(), {{"rows", 1024}, {"cols", 4096}},
                             limits, {.families = builtin_families()}, **measurer, {.top = 4});
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(result->wrong_results(), 0U);
    EXPECT_EQ(result->stop, TuneStop::kFinished);
    EXPECT_LE(result->tuned_us(), result->untuned_us());
    EXPECT_GT(result->tuned_us(), 1.0);
  }
}

}  // namespace sinter::device_measurer_test
