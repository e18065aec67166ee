#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fusion_ir/printer.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "tests/c_api/c_api_support.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/fake_driver.h"

namespace sinter::tuning_test {

using ::testing::HasSubstr;

constexpr int64_t kRows = 24;
constexpr int64_t kColumns = 512;
const std::vector<sinter_extent> kExtents = {{"rows", kRows}, {"cols", kColumns}};

/// Softmax compiled by NVRTC under a fake driver, whose kernels do on the host what they should.
class CTuningTest : public CApiTest {
 protected:
  void SetUp() override {
    CApiTest::SetUp();
    if (const auto compiler = NvrtcCompiler::open(); !compiler)
      GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
    driver_.set_kernel(
        "softmax_f32", 3, [](const LaunchConfig&, std::span<const uint64_t> arguments) {
          softmax(std::bit_cast<const float*>(arguments[0]), std::bit_cast<float*>(arguments[1]));
        });
    runtime_ = runtime_with(driver_, nullptr);
    fusion_ = parse(print(find_canned_fusion("softmax_f32")->build()));
    std::filesystem::create_directories(scratch_);
  }
  void TearDown() override {
    fusion_.reset();
    runtime_.reset();
    std::filesystem::remove_all(scratch_);
    CApiTest::TearDown();
  }

  static void softmax(const float* x, float* y) {
    for (int64_t row = 0; row < kRows; ++row, x += kColumns, y += kColumns) {
      float sum = 0.0F;
      for (int64_t i = 0; i < kColumns; ++i) sum += std::exp(x[i]);
      for (int64_t i = 0; i < kColumns; ++i) y[i] = std::exp(x[i]) / sum;
    }
  }

  OwnedTuningDatabase open(int32_t mode) {
    sinter_tuning_database* out = nullptr;
    succeeds([&](sinter_error** error) {
      return sinter_tuning_database_open(runtime_.get(), path_.c_str(), mode, &out, error);
    });
    return OwnedTuningDatabase(out);
  }
  sinter_status tune(const sinter_tune_options* options, sinter_tune_info* info, sinter_text** json,
                     sinter_error** error) {
    return sinter_tune(runtime_.get(), fusion_.get(), kExtents.data(), kExtents.size(), nullptr,
                       options, info, json, error);
  }

  FakeDriver driver_;
  OwnedRuntime runtime_;
  OwnedFusion fusion_;
  const std::filesystem::path scratch_ =
      std::filesystem::path(::testing::TempDir()) / fmt::format("sinter_c_tuning_{}", getpid());
  const std::string path_ = (scratch_ / "t.db").string();
};

TEST_F(CTuningTest, TunesKeepsAndPlansByIt) {
  const OwnedTuningDatabase database = open(SINTER_TUNING_CREATE);
  auto options = sized<sinter_tune_options>();
  size_t calls = 0;
  options.top = 2;
  options.progress = [](void* data, const sinter_tune_progress* progress) -> int32_t {
    EXPECT_EQ(progress->candidate, ++*static_cast<size_t*>(data));
    EXPECT_EQ(progress->candidate_count, 3U);
    EXPECT_GT(progress->best_us, 0.0);
    return 0;
  };
  options.progress_data = &calls;
  options.database = database.get();
  auto info = sized<sinter_tune_info>();
  const auto json = nlohmann::json::parse(text_from([&](sinter_text** text, sinter_error** error) {
    return tune(&options, &info, text, error);
  }));
  EXPECT_EQ(calls, 3U);
  EXPECT_EQ(info.ended, SINTER_TUNE_FINISHED);
  EXPECT_EQ(info.segment_count, 1U);
  EXPECT_EQ(info.measured_count, 1U);
  EXPECT_EQ(info.wrong_count, 0U);
  EXPECT_STREQ(info.unmeasured, "");
  EXPECT_NEAR(info.tuned_us, 10.0, 0.1) << "what every launch of the fake driver takes";
  EXPECT_EQ(json.at("kernels").at(0).at("measurements").size(), 3U);

  OwnedDevice device = preset();
  auto plan_options = sized<sinter_plan_options>();
  const OwnedTuningDatabase again = open(SINTER_TUNING_READ);
  plan_options.tuned = again.get();
  const OwnedPlan plan = plan_on(fusion_.get(), device.get(), kExtents, &plan_options);
  EXPECT_THAT(text_from([&](sinter_text** text, sinter_error** error) {
                return sinter_plan_explain(plan.get(), text, error);
              }),
              HasSubstr("t.db: measured 10.00 us, untuned 10.00 us"));
}

TEST_F(CTuningTest, ACallbackCancels) {
  auto options = sized<sinter_tune_options>();
  options.progress = [](void*, const sinter_tune_progress*) -> int32_t { return 1; };
  auto info = sized<sinter_tune_info>();
  succeeds([&](sinter_error** error) { return tune(&options, &info, nullptr, error); });
  EXPECT_EQ(info.ended, SINTER_TUNE_CANCELLED);
  EXPECT_EQ(info.measured_count, 1U) << "the untuned choice was";
}

TEST_F(CTuningTest, WhatIsNotMeasuredIsNamed) {
  auto options = sized<sinter_tune_options>();
  options.budget_seconds = 1e-9;
  auto info = sized<sinter_tune_info>();
  succeeds([&](sinter_error** error) { return tune(&options, &info, nullptr, error); });
  EXPECT_EQ(info.measured_count, 0U);
  EXPECT_EQ(info.tuned_us, 0.0);
  EXPECT_STREQ(info.unmeasured, "softmax_f32: not measured: the budget is spent");
}

TEST_F(CTuningTest, MistakesAreTypedErrors) {
  auto options = sized<sinter_tune_options>();
  options.samples = 3;
  EXPECT_EQ(
      refused([&](sinter_error** error) { return tune(&options, nullptr, nullptr, error); }).status,
      SINTER_INVALID_ARGUMENT);
  sinter_tuning_database* database = nullptr;
  const auto open_refused = [&](const char* path, int32_t mode) {
    const auto out = refused([&](sinter_error** error) {
      return sinter_tuning_database_open(runtime_.get(), path, mode, &database, error);
    });
    EXPECT_EQ(out.status, SINTER_INVALID_ARGUMENT);
    EXPECT_EQ(database, nullptr);
    return out.message;
  };
  EXPECT_THAT(open_refused(path_.c_str(), SINTER_TUNING_READ), HasSubstr("does not exist"));
  EXPECT_THAT(open_refused(path_.c_str(), 7), HasSubstr("no way of opening 7"));
  EXPECT_THAT(open_refused(nullptr, SINTER_TUNING_READ), HasSubstr("path"));
  std::ofstream(path_) << std::string(4096, 'x');
  EXPECT_THAT(open_refused(path_.c_str(), SINTER_TUNING_CREATE), HasSubstr("is no SQLite file"));
}

TEST_F(CTuningTest, IsRefusedDuringCapture) {
  ContextHandle context = nullptr;
  ASSERT_EQ(driver_.context_retain(&context, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.context_set_current(context), DriverStatus::kSuccess);
  StreamHandle stream = nullptr;
  ASSERT_EQ(driver_.stream_create(&stream, 0), DriverStatus::kSuccess);
  ASSERT_EQ(driver_.capture_begin(stream, CaptureMode::kGlobal), DriverStatus::kSuccess);
  auto options = sized<sinter_tune_options>();
  options.stream = stream;
  const auto refusal =
      refused([&](sinter_error** error) { return tune(&options, nullptr, nullptr, error); });
  EXPECT_EQ(refusal.status, SINTER_INVALID_ARGUMENT);
  EXPECT_THAT(refusal.message, HasSubstr("captured"));
  EXPECT_EQ(driver_.calls(DriverCall::kLaunch), 0);
}

}  // namespace sinter::tuning_test
