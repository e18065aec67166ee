#include <gmock/gmock.h>

#include "tests/c_api/execution_fixture.h"

namespace sinter::ranged_test {

using ::testing::HasSubstr;
using OwnedRanged = Owned<sinter_ranged, sinter_ranged_release>;

/// kScale for 1 to 64 rows under the fake driver.
class RangedTest : public ExecutionTest {
 protected:
  void SetUp() override {
    ExecutionTest::SetUp();
    fusion_ = parse(kScale);
    device_ = preset();
    ranged_ = prepare();
  }
  void TearDown() override {
    ranged_.reset();
    device_.reset();
    fusion_.reset();
    ExecutionTest::TearDown();
  }

  sinter_status try_prepare(sinter_ranged** ranged, sinter_error** error) {
    return sinter_ranged_prepare(runtime_.get(), fusion_.get(), device_.get(), ranges_.data(),
                                 ranges_.size(), &planning_, &preparing_, &options_, ranged, error);
  }
  OwnedRanged prepare() {
    sinter_ranged* ranged = nullptr;
    succeeds([&](sinter_error** error) { return try_prepare(&ranged, error); });
    return OwnedRanged(ranged);
  }
  Refusal prepare_refused() {
    sinter_ranged* ranged = nullptr;
    auto out = refused([&](sinter_error** error) { return try_prepare(&ranged, error); });
    EXPECT_EQ(ranged, nullptr);
    return out;
  }
  OwnedExecutable at(int64_t rows) {
    const sinter_extent extent{"rows", rows};
    sinter_executable* executable = nullptr;
    succeeds([&](sinter_error** error) {
      return sinter_ranged_at(ranged_.get(), &extent, 1, &executable, error);
    });
    return OwnedExecutable(executable);
  }
  Refusal at_refused(const sinter_extent& extent) {
    sinter_executable* executable = nullptr;
    return refused([&](sinter_error** error) {
      return sinter_ranged_at(ranged_.get(), &extent, 1, &executable, error);
    });
  }
  sinter_ranged_info info() {
    auto out = sized<sinter_ranged_info>();
    succeeds(
        [&](sinter_error** error) { return sinter_ranged_describe(ranged_.get(), &out, error); });
    return out;
  }

  OwnedFusion fusion_;
  OwnedDevice device_;
  std::vector<sinter_extent_range> ranges_ = {{"rows", 1, 64}, {"cols", kColumns, kColumns}};
  sinter_plan_options planning_ = sized<sinter_plan_options>();
  sinter_prepare_options preparing_ = sized<sinter_prepare_options>();
  sinter_ranged_options options_ = sized<sinter_ranged_options>();
  OwnedRanged ranged_;
};

TEST_F(RangedTest, SizesOfARangeShareAPlan) {
  const OwnedExecutable seven = at(7);
  EXPECT_EQ(info().plans, 2);
  EXPECT_EQ(info().shared, 1);
  EXPECT_EQ(info().kept, 2U);
  auto tensor = sized<sinter_tensor_info>();
  succeeds([&](sinter_error** error) {
    return sinter_executable_input(seven.get(), 0, &tensor, error);
  });
  EXPECT_EQ(tensor.shape[0], 7);
  EXPECT_THAT(text_from([&](sinter_text** text, sinter_error** error) {
                return sinter_ranged_report(ranged_.get(), text, error);
              }),
              HasSubstr("rows=7"));
}

TEST_F(RangedTest, ExecutesAtTheSizesOfTheTensors) {
  succeeds(
      [&](sinter_error** error) { return sinter_ranged_execute(ranged_.get(), &args_, error); });
  EXPECT_EQ(launches_, 1);
  EXPECT_EQ(info().uses, 2) << "the first sizes, and those of the tensors";
  x_.shape[0] = kRows - 1;
  const Refusal differ = refused(
      [&](sinter_error** error) { return sinter_ranged_execute(ranged_.get(), &args_, error); });
  EXPECT_EQ(differ.status, SINTER_INVALID_ARGUMENT);
  y_.shape[0] = kRows - 1;
  succeeds(
      [&](sinter_error** error) { return sinter_ranged_execute(ranged_.get(), &args_, error); });
  EXPECT_EQ(launches_, 2);
}

TEST_F(RangedTest, RefusesTensorsThatNoSizesSuit) {
  const auto refusal = [&] {
    return refused(
        [&](sinter_error** error) { return sinter_ranged_execute(ranged_.get(), &args_, error); });
  };
  x_.shape[0] = y_.shape[0] = 65;
  EXPECT_THAT(refusal().message, HasSubstr("65"));
  x_.shape[0] = y_.shape[0] = -1;
  EXPECT_EQ(refusal().status, SINTER_INVALID_ARGUMENT);
  x_.shape[0] = y_.shape[0] = kRows;
  x_.tensor.dl_tensor.ndim = 1;
  EXPECT_THAT(refusal().message, HasSubstr("input 0 'x' (%v0) has 1 axes"));
  x_.tensor.dl_tensor.ndim = 2;
  x_.tensor.dl_tensor.dtype = {2, 32, 1};
  EXPECT_THAT(refusal().message, HasSubstr("has type f32"));
  x_.tensor.dl_tensor.dtype = {4, 16, 1};
  x_.tensor.dl_tensor.device.device_id = 1;
  EXPECT_THAT(refusal().message, HasSubstr("lies on device 1"));
  x_.tensor.dl_tensor.device.device_id = 0;
  x_.tensor.dl_tensor.shape = nullptr;
  EXPECT_THAT(refusal().message, HasSubstr("has no shape"));
  x_.tensor.dl_tensor.shape = x_.shape.data();
  args_.input_count = 1;
  EXPECT_THAT(refusal().message, HasSubstr("1 inputs were passed"));
  EXPECT_EQ(launches_, 0);
}

TEST_F(RangedTest, SizesOutsideAreRefusedOrPlanned) {
  EXPECT_EQ(at_refused({"rows", 65}).status, SINTER_INVALID_ARGUMENT);
  EXPECT_THAT(at_refused({"row", 3}).message, HasSubstr("no symbol 'row'"));
  EXPECT_EQ(at_refused({nullptr, 3}).status, SINTER_INVALID_ARGUMENT);
  options_.outside = SINTER_OUTSIDE_PLAN;
  ranged_ = prepare();
  EXPECT_NE(at(65), nullptr);
}

TEST_F(RangedTest, WhatAtGaveOutlivesTheRest) {
  const OwnedExecutable six = at(kRows);
  ranged_.reset();
  runtime_.reset();
  succeeds(
      [&](sinter_error** error) { return sinter_executable_execute(six.get(), &args_, error); });
  EXPECT_EQ(launches_, 1);
}

TEST_F(RangedTest, RefusesWhatItDoesNotKnow) {
  for (int32_t sinter_ranged_options::*field :
       {&sinter_ranged_options::plans, &sinter_ranged_options::outside}) {
    for (const int32_t number : {2, -1}) {
      options_ = sized<sinter_ranged_options>();
      options_.*field = number;
      EXPECT_EQ(prepare_refused().status, SINTER_INVALID_ARGUMENT);
    }
  }
  options_ = sized<sinter_ranged_options>();
  options_.slower_at_most = 0.5;
  EXPECT_EQ(prepare_refused().status, SINTER_INVALID_ARGUMENT);
  options_ = sized<sinter_ranged_options>();
  planning_.budget_seconds = 5.0;
  EXPECT_THAT(prepare_refused().message, HasSubstr("plan_options.budget_seconds"));
  planning_ = sized<sinter_plan_options>();
  preparing_.budget_seconds = 5.0;
  EXPECT_THAT(prepare_refused().message, HasSubstr("prepare_options.budget_seconds"));
  preparing_ = sized<sinter_prepare_options>();
  ranges_.push_back(ranges_.front());
  EXPECT_THAT(prepare_refused().message, HasSubstr("'rows' is given twice"));
  ranges_.back() = {nullptr, 1, 2};
  EXPECT_EQ(prepare_refused().status, SINTER_INVALID_ARGUMENT);
  ranges_.back() = {"tokens", 1, 2};
  EXPECT_THAT(prepare_refused().message, HasSubstr("no symbol 'tokens'"));
  ranges_ = {{"rows", 9, 2}, {"cols", 64, 64}};
  EXPECT_EQ(prepare_refused().status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_ranged_prepare(nullptr, nullptr, nullptr, nullptr, 0, nullptr, nullptr, nullptr,
                                  nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_ranged_at(nullptr, nullptr, 0, nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_ranged_execute(nullptr, nullptr, nullptr), SINTER_INVALID_HANDLE);
  EXPECT_EQ(sinter_ranged_execute(ranged_.get(), nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_ranged_describe(nullptr, nullptr, nullptr), SINTER_INVALID_HANDLE);
}

int32_t cancel(void* /*user_data*/, const sinter_progress* progress) {
  return progress->stage == SINTER_STAGE_COMPILE ? 1 : 0;
}

TEST_F(RangedTest, ACallbackCancelsAPreparation) {
  preparing_.progress = cancel;
  EXPECT_EQ(prepare_refused().status, SINTER_CANCELLED);
  sinter_executable* executable = nullptr;
  const Refusal refusal = refused([&](sinter_error** error) {
    return sinter_executable_prepare(runtime_.get(), plan_.get(), &preparing_, &executable, error);
  });
  EXPECT_EQ(refusal.status, SINTER_CANCELLED);
}

TEST_F(RangedTest, ABudgetEndsAPreparation) {
  preparing_.budget_seconds = 1e-9;
  sinter_executable* executable = nullptr;
  const Refusal refusal = refused([&](sinter_error** error) {
    return sinter_executable_prepare(runtime_.get(), plan_.get(), &preparing_, &executable, error);
  });
  EXPECT_EQ(refusal.status, SINTER_RESOURCE_EXHAUSTED);
  EXPECT_THAT(refusal.message, HasSubstr("time budget ended"));
}

TEST_F(RangedTest, APlanIsFollowed) {
  planning_.like = plan_.get();
  const OwnedPlan followed =
      plan_on(fusion_.get(), device_.get(), {{"rows", 9}, {"cols", kColumns}}, &planning_);
  const auto schedule_of = [](const OwnedPlan& plan) {
    return text_from([&](sinter_text** text, sinter_error** error) {
      return sinter_plan_kernel_schedule(plan.get(), 0, text, error);
    });
  };
  EXPECT_EQ(schedule_of(followed), schedule_of(plan_));
  planning_.unroll = 2;
  sinter_plan* plan = nullptr;
  const Refusal refusal = refused([&](sinter_error** error) {
    return sinter_plan_create(fusion_.get(), device_.get(), nullptr, 0, &planning_, &plan, error);
  });
  EXPECT_EQ(refusal.status, SINTER_INVALID_ARGUMENT);
}

}  // namespace sinter::ranged_test
