#include "runtime/check/device_run.h"

#include <gmock/gmock.h>

#include <bit>

#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/interpreter/interpreter.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter::device_run_test {

using ::testing::ElementsAre;

constexpr int64_t kRows = 50;
constexpr int64_t kColumns = 100;
constexpr int64_t kElementsPerRow = 2 * kColumns;
constexpr double kLaunchUs = 12.5;
constexpr double kCopyRate = 1000.0;

/// RMS norm on a fake device whose kernels run in the interpreter.
class DeviceRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    driver_.set_launch_us([](int64_t) { return kLaunchUs; });
    Plan planned = plan(fusion_, {{"rows", kRows}, {"cols", kColumns}}, *find_device("H200"),
                        {.families = builtin_families()})
                       .value();
    const KernelPlan& kernel = planned.kernels.front();
    LoweredKernel lowered = lower(kernel.facts, kernel.chosen().schedule).value();
    KernelSource source = emit(kernel.facts, kernel.chosen().schedule).value();
    auto compiled = std::make_shared<CompiledKernel>();
    compiled->entry = source.entry;
    compiled->cubin = "cubin";
    std::vector<size_t> bytes;
    for (const BufferArgument& buffer : source.buffers) {
      const Value& value = planned.fusion.values[buffer.value];
      bytes.push_back(static_cast<size_t>(element_count(value.shape) * bytes_of(value.type)));
    }
    driver_.set_kernel(
        source.entry, bytes.size() + source.params.size(),
        [this, lowered, bytes](const LaunchConfig&, std::span<const uint64_t> arguments) {
          launch(lowered, bytes, arguments);
        });
    const ProposedSchedule chosen = kernel.chosen();
    CompiledPlan ready{.plan = std::move(planned), .kernels = {}};
    ready.kernels.push_back({.chosen = chosen,
                             .source = std::move(source),
                             .kernel = std::move(compiled),
                             .attempts = {}});
    auto executable = Executable::prepare(std::move(ready), driver_);
    ASSERT_TRUE(executable) << executable.error().text();
    executable_.emplace(std::move(*executable));
  }

  void launch(const LoweredKernel& lowered, const std::vector<size_t>& bytes,
              std::span<const uint64_t> arguments) {
    std::vector<LaunchMemory> memory;
    for (size_t i = 0; i < bytes.size(); ++i)
      memory.push_back({.bytes = {std::bit_cast<std::byte*>(arguments[i]), bytes[i]}});
    const auto report = interpret(lowered.kernel, memory, lowered.param_values);
    ASSERT_TRUE(report) << report.error().text();
    if (damage_) damage_(memory.back().bytes);
  }

  Result<DeviceRun> run(int64_t oracle_rows) {
    return run_on_device(fusion_, *executable_, driver_,
                         {.timing = {.scratch_bytes = 4096},
                          .oracle_elements = oracle_rows * kElementsPerRow,
                          .copy_bytes_per_us = kCopyRate});
  }

  FakeDriver driver_;
  Fusion fusion_ = find_canned_fusion("rms_norm")->build();
  std::optional<Executable> executable_;
  std::function<void(std::span<std::byte> y)> damage_;  ///< What a wrong kernel does to y (bf16).
};

size_t byte_of(int64_t row, int64_t column) {
  return static_cast<size_t>(row * kColumns + column) * 2;
}

TEST_F(DeviceRunTest, ChecksEveryElementAgainstAFewEvaluatedRows) {
  const auto run_of_nine = run(9);
  ASSERT_TRUE(run_of_nine) << run_of_nine.error().text();
  EXPECT_TRUE(run_of_nine->check.passed()) << run_of_nine->check.text();
  EXPECT_EQ(run_of_nine->check.slices_evaluated, 9);
  EXPECT_EQ(run_of_nine->check.slices, kRows);
  EXPECT_EQ(run_of_nine->check.elements, kRows * kColumns);
  EXPECT_LE(run_of_nine->check.worst_ratio, 1.0);
}

TEST_F(DeviceRunTest, EvaluatesAllRowsThatFitTheBudget) {
  const auto whole = run(kRows);
  ASSERT_TRUE(whole) << whole.error().text();
  EXPECT_TRUE(whole->check.passed()) << whole->check.text();
  EXPECT_EQ(whole->check.slices_evaluated, kRows);
}

TEST_F(DeviceRunTest, TimesBesideTheCopyFloor) {
  const auto timed = run(9);
  ASSERT_TRUE(timed) << timed.error().text();
  EXPECT_NEAR(timed->timing.median_us, kLaunchUs, 1e-3);
  EXPECT_EQ(timed->timing.samples_us.size(), 15U);
  // x and y of two bytes, and the weight.
  EXPECT_EQ(timed->minimum_bytes, 2 * kRows * kColumns * 2 + kColumns * 2);
  EXPECT_DOUBLE_EQ(timed->floor_us, static_cast<double>(timed->minimum_bytes) / kCopyRate);
  EXPECT_NEAR(timed->speed_of_light(), timed->floor_us / kLaunchUs, 1e-3);
}

TEST_F(DeviceRunTest, FindsOneWrongElementWhereverItIs) {
  // In the first period, in the middle, in the short last one, and the very last element.
  for (const int64_t row : {0L, 37L, 46L, kRows - 1}) {
    damage_ = [row](std::span<std::byte> y) { y[byte_of(row, kColumns - 1) + 1] ^= std::byte{4}; };
    const auto wrong = run(9);
    ASSERT_TRUE(wrong) << wrong.error().text();
    ASSERT_EQ(wrong->check.mismatches.size(), 1U) << row;
    const Mismatch& mismatch = wrong->check.mismatches.front();
    EXPECT_THAT(mismatch.index, ElementsAre(row, kColumns - 1));
    EXPECT_EQ(mismatch.count, 1);
    EXPECT_EQ(mismatch.total, kRows * kColumns);
    EXPECT_TRUE(wrong->timing.samples_us.empty()) << "a wrong kernel is not worth timing";
  }
}

TEST_F(DeviceRunTest, CountsWrongElementsOfAllPeriods) {
  damage_ = [](std::span<std::byte> y) {
    for (int64_t row = 0; row < kRows; ++row) y[byte_of(row, 0) + 1] ^= std::byte{4};
  };
  const auto wrong = run(9);
  ASSERT_TRUE(wrong) << wrong.error().text();
  ASSERT_EQ(wrong->check.mismatches.size(), 1U);
  EXPECT_EQ(wrong->check.mismatches.front().count, kRows);
}

TEST_F(DeviceRunTest, FindsRowsSwappedAtADistanceOfAPowerOfTwo) {
  damage_ = [](std::span<std::byte> y) {
    std::swap_ranges(&y[byte_of(0, 0)], &y[byte_of(1, 0)], &y[byte_of(16, 0)]);
  };
  const auto wrong = run(9);
  ASSERT_TRUE(wrong) << wrong.error().text();
  EXPECT_FALSE(wrong->check.passed());
}

TEST_F(DeviceRunTest, FindsRowsThatAreNotWritten) {
  damage_ = [](std::span<std::byte> y) {
    std::fill(&y[byte_of(kRows - 1, 0)], y.data() + y.size(), std::byte{0xff});
  };
  const auto wrong = run(9);
  ASSERT_TRUE(wrong) << wrong.error().text();
  ASSERT_EQ(wrong->check.mismatches.size(), 1U);
  EXPECT_EQ(wrong->check.mismatches.front().count, kColumns);
}

TEST_F(DeviceRunTest, AFullDeviceIsAnErrorAndLeaksNothing) {
  const int64_t before = driver_.allocated_bytes();
  driver_.fail_next(DriverCall::kMemoryAllocate, DriverStatus::kOutOfMemory, 2);
  const auto full = run(9);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(driver_.allocated_bytes(), before);
}

TEST_F(DeviceRunTest, AFailingLaunchIsAnError) {
  driver_.fail_next(DriverCall::kLaunch, DriverStatus::kLaunchOutOfResources);
  const auto failed = run(9);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::kDeviceError);
}

TEST(DeviceRunGpu, RunsANormFasterThanAQuarterOfTheCopyRate) {
  const auto driver = cuda_driver();
  if (!driver) GTEST_SKIP() << "no GPU: " << driver.error().message;
  const auto compiler = NvrtcCompiler::open();
  if (!compiler) GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const DeviceLimits limits = query_device(**driver, 0).value();
  const Fusion fusion = find_canned_fusion("residual_rms_norm")->build();
  KernelCache cache({});
  auto compiled =
      plan(fusion, {{"rows", 8191}, {"cols", 4096}}, limits, {.families = builtin_families()})
          .and_then(
              [&](Plan planned) { return compile_plan(std::move(planned), *compiler, cache); });
  ASSERT_TRUE(compiled) << compiled.error().text();
  const auto executable = Executable::prepare(std::move(*compiled), **driver);
  ASSERT_TRUE(executable) << executable.error().text();
  const auto done = run_on_device(fusion, *executable, **driver);
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_TRUE(done->check.passed()) << done->check.text();
  EXPECT_GT(done->speed_of_light(), 0.25);
  EXPECT_LT(done->speed_of_light(), 1.2);
}

TEST(MinimumBytes, CountWhatTheGraphReadsAndWritesHoweverManyKernelsDoIt) {
  static constexpr int64_t kTokens = 4096;
  const auto bytes = [](int64_t columns) {
    return minimum_bytes(plan(find_canned_fusion("layer_norm_backward")->build(),
                              {{"rows", kTokens}, {"cols", columns}}, *find_device("H200"))
                             .value());
  };
  // x, dy and dx; weight, dweight and dbias; mean and rstd.
  const auto expected = [](int64_t columns) {
    return 3 * kTokens * columns * 2 + 3 * columns * 2 + 2 * kTokens * 4;
  };
  EXPECT_EQ(bytes(4096), expected(4096));    // One pass, and a kernel that finishes it.
  EXPECT_EQ(bytes(65536), expected(65536));  // A kernel for the rows, one for the columns.
}

}  // namespace sinter::device_run_test
