#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "tests/c_api/c_api_support.h"

namespace sinter::check_test {

using ::testing::HasSubstr;

constexpr std::string_view kCall = R"(fusion @call {
  %v0 x : f32[4, 8] = input
  %v1 y : f32[4, 8] = external run %v0
  return %v1
})";

class CheckTest : public CApiTest {
 protected:
  void SetUp() override {
    CApiTest::SetUp();
    const OwnedFusion fusion = parse(kScale);
    const OwnedDevice device = preset();
    plan_ = plan_on(fusion.get(), device.get(), {{"rows", 6}, {"cols", 64}});
  }
  void TearDown() override {
    plan_.reset();
    CApiTest::TearDown();
  }
  Refusal check_refused(const sinter_check_options& options) {
    return refused([&](sinter_error** error) {
      return sinter_plan_check(plan_.get(), nullptr, 0, &options, nullptr, nullptr, error);
    });
  }
  OwnedPlan plan_;
};

// The plan outlives the graph that it is held against.
TEST_F(CheckTest, PassesOnSampleData) {
  auto info = sized<sinter_check_info>();
  sinter_text* report = nullptr;
  succeeds([&](sinter_error** error) {
    return sinter_plan_check(plan_.get(), nullptr, 0, nullptr, &info, &report, error);
  });
  const OwnedText owned(report);
  EXPECT_EQ(info.passed, 1);
  EXPECT_EQ(info.finding_count + info.mismatch_count + info.outside_count, 0U);
  EXPECT_GT(info.data_sets, 10U) << "such sizes can afford many";
  EXPECT_LE(info.worst_error_over_bound, 1.0);
}

TEST_F(CheckTest, NeedsNothingBackAndTakesKindsOfData) {
  auto options = sized<sinter_check_options>();
  const std::array<const char*, 2> kinds = {"ordinary", "infinity everywhere"};
  options.data = kinds.data();
  options.data_count = kinds.size();
  auto info = sized<sinter_check_info>();
  succeeds([&](sinter_error** error) {
    return sinter_plan_check(plan_.get(), nullptr, 0, &options, &info, nullptr, error);
  });
  EXPECT_EQ(info.data_sets, 2U);
  succeeds([&](sinter_error** error) {
    return sinter_plan_check(plan_.get(), nullptr, 0, nullptr, nullptr, nullptr, error);
  });
}

TEST_F(CheckTest, RefusesWhatItDoesNotKnow) {
  auto options = sized<sinter_check_options>();
  options.reserved = 1;
  EXPECT_THAT(check_refused(options).message, HasSubstr("options.reserved"));
  options = sized<sinter_check_options>();
  options.threads = -1;
  EXPECT_EQ(check_refused(options).status, SINTER_INVALID_ARGUMENT);
  options = sized<sinter_check_options>();
  options.data_count = 1;
  EXPECT_THAT(check_refused(options).message, HasSubstr("options.data is null"));
  const char* unknown = "ordinry";
  options.data = &unknown;
  EXPECT_THAT(check_refused(options).message, HasSubstr("no sample data 'ordinry'"));
  EXPECT_EQ(sinter_plan_check(nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr),
            SINTER_INVALID_HANDLE);
  EXPECT_EQ(sinter_plan_check(plan_.get(), nullptr, 1, nullptr, nullptr, nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
  sinter_check_info info{};
  info.struct_size = 12;
  EXPECT_EQ(sinter_plan_check(plan_.get(), nullptr, 0, nullptr, &info, nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
}

TEST_F(CheckTest, RefusesExternalCalls) {
  const OwnedFusion fusion = parse(kCall);
  const OwnedDevice device = preset();
  const OwnedPlan plan = plan_on(fusion.get(), device.get(), {});
  EXPECT_EQ(sinter_plan_check(plan.get(), nullptr, 0, nullptr, nullptr, nullptr, nullptr),
            SINTER_UNSUPPORTED);
}

TEST_F(CheckTest, HostExecutionRefusesReservedFields) {
  auto options = sized<sinter_host_options>();
  options.reserved = 1;
  const Refusal refusal = refused([&](sinter_error** error) {
    return sinter_plan_execute_on_host(plan_.get(), nullptr, 0, nullptr, 0, &options, error);
  });
  EXPECT_THAT(refusal.message, HasSubstr("options.reserved"));
}

}  // namespace sinter::check_test
