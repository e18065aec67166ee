#include "runtime/execute/zeroed_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "runtime/driver/device_context.h"
#include "tests/support/fake_driver.h"

namespace sinter::zeroed_memory_test {

constexpr DevicePointer kFirst = 0x7f00'0000'0000;
constexpr int64_t kBytes = 12;

class ZeroedMemoryTest : public testing::Test {
 protected:
  FakeDriver driver_;
  DeviceContext context_ = DeviceContext::retain(driver_, 0).value();
  CurrentContext current_ = CurrentContext::enter(driver_, context_).value();
};

TEST_F(ZeroedMemoryTest, AreZeroBeforeAnyoneUsesThem) {
  const ZeroedMemory counters = ZeroedMemory::create(driver_, kBytes).value();
  std::vector<int32_t> seen(kBytes / 4, -1);
  ASSERT_EQ(driver_.copy_to_host(seen.data(), counters.of(kFirst), kBytes), DriverStatus::kSuccess);
  EXPECT_THAT(seen, testing::Each(0));
  EXPECT_EQ(driver_.calls(DriverCall::kStreamSynchronize), 1) << "not only on their way";
}

TEST_F(ZeroedMemoryTest, BelongToOneWorkspaceEach) {
  const ZeroedMemory counters = ZeroedMemory::create(driver_, kBytes).value();
  std::set<DevicePointer> given;
  for (size_t i = 0; i < ZeroedMemory::kWorkspaces; ++i) {
    // As far apart as a power of two, where a table would put all of them into one place.
    const DevicePointer own = counters.of(kFirst + i * 65536);
    ASSERT_NE(own, 0U);
    EXPECT_TRUE(given.insert(own).second);
  }
  for (const DevicePointer own : given) {
    const auto next = given.upper_bound(own);
    if (next == given.end()) continue;
    EXPECT_GE(*next - own, static_cast<DevicePointer>(kBytes));
  }
  EXPECT_EQ(counters.of(kFirst + 3 * 65536), counters.of(kFirst + 3 * 65536));
  EXPECT_EQ(counters.of(kFirst + 4096), 0U) << "all have gone to others";
  EXPECT_NE(counters.of(kFirst), 0U);
}

TEST_F(ZeroedMemoryTest, LargeOnesBelongToFewWorkspaces) {
  constexpr auto kLarge = static_cast<int64_t>(ZeroedMemory::kMostBytes / 3 / 128 * 128);
  const ZeroedMemory three = ZeroedMemory::create(driver_, kLarge).value();
  for (DevicePointer i = 0; i < 3; ++i) EXPECT_NE(three.of(kFirst + i * 4096), 0U) << i;
  EXPECT_EQ(three.of(kFirst + 3 * 4096), 0U);
  EXPECT_NE(three.of(kFirst + 4096), 0U);
  const ZeroedMemory one = ZeroedMemory::create(driver_, 4 * kLarge).value();
  EXPECT_NE(one.of(kFirst), 0U) << "of any size for one";
  EXPECT_EQ(one.of(kFirst + 4096), 0U);
}

TEST_F(ZeroedMemoryTest, ThreadsAgreeOnThem) {
  const ZeroedMemory counters = ZeroedMemory::create(driver_, kBytes).value();
  constexpr size_t kThreads = 8;
  std::vector<std::vector<DevicePointer>> seen(kThreads);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 2 * ZeroedMemory::kWorkspaces; ++i)
          seen[t].push_back(counters.of(kFirst + (i * 7 + t) % 32 * 256));
        // Each in the same order again.
        seen[t].clear();
        for (size_t i = 0; i < 32; ++i) seen[t].push_back(counters.of(kFirst + i * 256));
      });
    }
  }
  for (const auto& of_thread : seen) EXPECT_EQ(of_thread, seen.front());
  EXPECT_EQ(std::set<DevicePointer>(seen.front().begin(), seen.front().end()).size(), 32U);
}

TEST_F(ZeroedMemoryTest, FailuresComeBackAndLeaveNothing) {
  const int64_t before = driver_.allocated_bytes();
  for (const DriverCall call : {DriverCall::kMemoryAllocate, DriverCall::kStreamCreate,
                                DriverCall::kFillAsync, DriverCall::kStreamSynchronize}) {
    driver_.fail_next(call, DriverStatus::kIllegalAddress);
    EXPECT_FALSE(ZeroedMemory::create(driver_, kBytes)) << name_of(call);
    EXPECT_EQ(driver_.allocated_bytes(), before);
  }
  { EXPECT_TRUE(ZeroedMemory::create(driver_, kBytes)); }
  EXPECT_EQ(driver_.allocated_bytes(), before);
}

}  // namespace sinter::zeroed_memory_test
