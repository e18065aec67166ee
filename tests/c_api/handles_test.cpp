#include <gmock/gmock.h>

#include <atomic>
#include <bit>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "runtime/c_api/errors.h"
#include "tests/c_api/c_api_support.h"

namespace sinter::handles_test {

using ::testing::HasSubstr;

class HandlesTest : public CApiTest {};

template <class Handle>
Handle* fake_handle(uintptr_t bits) {
  return std::bit_cast<Handle*>(bits);
}

TEST_F(HandlesTest, WhatIsNoHandleIsRefused) {
  auto info = sized<sinter_plan_info>();
  for (const uintptr_t bits : {uintptr_t{0}, uintptr_t{1}, uintptr_t{0x51e7} << 48, ~uintptr_t{0},
                               std::bit_cast<uintptr_t>(static_cast<const void*>(&info))}) {
    const auto refusal = refused([&](sinter_error** error) {
      return sinter_plan_describe(fake_handle<sinter_plan>(bits), &info, error);
    });
    EXPECT_EQ(refusal.status, SINTER_INVALID_HANDLE) << bits;
    EXPECT_THAT(refusal.json, HasSubstr(R"({"kind":"InvalidHandle","message":")"));
    EXPECT_THAT(refusal.message, HasSubstr(bits == 0 ? "is null" : "no live plan handle"));
  }
}

TEST_F(HandlesTest, AReleasedHandleIsRefused) {
  sinter_fusion* const fusion = parse(kScale).release();
  EXPECT_EQ(sinter_fusion_release(fusion, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_fusion_release(fusion, nullptr), SINTER_INVALID_HANDLE);
  sinter_text* text = nullptr;
  EXPECT_EQ(sinter_fusion_print(fusion, &text, nullptr), SINTER_INVALID_HANDLE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(HandlesTest, AHandleOfAnotherKindIsRefused) {
  const OwnedFusion fusion = parse(kScale);
  auto* const plan = reinterpret_cast<sinter_plan*>(fusion.get());
  sinter_text* text = nullptr;
  EXPECT_EQ(sinter_plan_explain(plan, &text, nullptr), SINTER_INVALID_HANDLE);
  EXPECT_EQ(sinter_plan_release(plan, nullptr), SINTER_INVALID_HANDLE);
  EXPECT_EQ(sinter_error_release(reinterpret_cast<sinter_error*>(fusion.get())),
            SINTER_INVALID_HANDLE);
}

TEST_F(HandlesTest, NullIsReleasedAsNothing) {
  EXPECT_EQ(sinter_plan_release(nullptr, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_fusion_release(nullptr, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_builder_release(nullptr, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_device_release(nullptr, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_runtime_release(nullptr, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_executable_release(nullptr, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_text_release(nullptr, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_error_release(nullptr), SINTER_OK);
}

TEST_F(HandlesTest, NoNumberIsGivenOutTwice) {
  std::set<sinter_device*> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(preset().get()).second);
}

TEST_F(HandlesTest, NoHandleIsAnAddress) {
  const OwnedDevice device = preset();
  // Addresses have 48 bits, or 57: the upper ones of a pointer are all equal.
  EXPECT_EQ(std::bit_cast<uintptr_t>(device.get()) >> 48, 0x51e7U);
}

TEST_F(HandlesTest, ErrorsAreReplacedNotKept) {
  sinter_error* error = nullptr;
  sinter_device* device = nullptr;
  ASSERT_EQ(sinter_device_preset("none", &device, &error), SINTER_INVALID_ARGUMENT);
  ASSERT_NE(error, nullptr);
  sinter_error* const first = error;
  ASSERT_EQ(sinter_device_preset("H200", &device, &error), SINTER_OK);
  EXPECT_EQ(error, nullptr);
  EXPECT_EQ(sinter_device_release(device, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_error_release(first), SINTER_OK);
  auto info = sized<sinter_error_info>();
  EXPECT_EQ(sinter_error_describe(first, &info), SINTER_INVALID_HANDLE);
}

TEST_F(HandlesTest, NoExceptionGetsOut) {
  const auto status_of_throwing = [](auto thrown) {
    return refused(
               [&](sinter_error** error) { return c_api::guarded(error, [&] { throw thrown; }); })
        .status;
  };
  EXPECT_EQ(status_of_throwing(std::bad_alloc()), SINTER_RESOURCE_EXHAUSTED);
  EXPECT_EQ(status_of_throwing(std::runtime_error("x")), SINTER_INTERNAL_ERROR);
  EXPECT_EQ(status_of_throwing(7), SINTER_INTERNAL_ERROR);
  EXPECT_EQ(status_of_throwing(
                SinterException({.kind = ErrorKind::kUnsupported, .message = "m", .remedy = "r"})),
            SINTER_UNSUPPORTED);
}

TEST_F(HandlesTest, ThreadsShareAHandleThatOneOfThemReleases) {
  constexpr int kThreads = 16;
  const OwnedFusion kept = parse(kScale);
  const std::string expected = text_from([&](sinter_text** text, sinter_error** error) {
    return sinter_fusion_print(kept.get(), text, error);
  });
  for (int round = 0; round < 20; ++round) {
    sinter_fusion* const fusion = parse(kScale).release();
    std::atomic<int> started = 0;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        ++started;
        while (started < kThreads) std::this_thread::yield();
        if (i == 0) {
          if (sinter_fusion_release(fusion, nullptr) != SINTER_OK) ++wrong;
          return;
        }
        while (true) {
          sinter_text* text = nullptr;
          const sinter_status status = sinter_fusion_print(fusion, &text, nullptr);
          if (status == SINTER_INVALID_HANDLE) return;
          const char* data = nullptr;
          if (status != SINTER_OK || sinter_text_view(text, &data, nullptr, nullptr) != SINTER_OK ||
              data != expected || sinter_text_release(text, nullptr) != SINTER_OK) {
            ++wrong;
            return;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace sinter::handles_test
