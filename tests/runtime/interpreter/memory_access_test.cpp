#include "runtime/interpreter/memory_access.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <set>

namespace sinter::interpreter::memory_access_test {

LaneAddresses lanes(const std::function<int64_t(int64_t)>& address) {
  LaneAddresses addresses{};
  for (size_t i = 0; i < kLanes; ++i) addresses[i] = address(static_cast<int64_t>(i));
  return addresses;
}

TEST(SectorsTouched, CountsKnownPatterns) {
  const auto stride = [](int64_t bytes) { return lanes([=](int64_t i) { return i * bytes; }); };
  EXPECT_EQ(sectors_touched(stride(4), kAllLanes, 4), 4);
  EXPECT_EQ(sectors_touched(stride(16), kAllLanes, 16), 16);
  EXPECT_EQ(sectors_touched(stride(2), kAllLanes, 2), 2);
  EXPECT_EQ(sectors_touched(stride(128), kAllLanes, 4), 32);
  EXPECT_EQ(sectors_touched(stride(0), kAllLanes, 4), 1);
  EXPECT_EQ(sectors_touched(stride(4), 0x1, 4), 1);
  EXPECT_EQ(sectors_touched(stride(4), 0, 4), 0);
  EXPECT_EQ(sectors_touched(lanes([](int64_t i) { return 4 * i + 4; }), kAllLanes, 4), 5);
  EXPECT_EQ(sectors_touched(lanes([](int64_t i) { return -4 * i; }), kAllLanes, 4), 5);
}

TEST(SectorsTouched, AgreesWithASetOfSectors) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const int64_t bytes = int64_t{1} << (random() % 6);
    const auto addresses =
        lanes([&](int64_t) { return (static_cast<int64_t>(random() % 64) - 8) * bytes; });
    const auto mask = static_cast<uint32_t>(random());
    std::set<int64_t> sectors;
    for (size_t i = 0; i < kLanes; ++i) {
      if (((mask >> i) & 1U) == 0) continue;
      for (int64_t b = 0; b < bytes; ++b) sectors.insert((addresses[i] + b) >> 5);
    }
    EXPECT_EQ(sectors_touched(addresses, mask, bytes), static_cast<int64_t>(sectors.size()));
  }
}

TEST(BankConflicts, CountsKnownPatterns) {
  const auto stride = [](int64_t bytes) { return lanes([=](int64_t i) { return i * bytes; }); };
  EXPECT_EQ(bank_conflicts(stride(4), kAllLanes, 4), 0);
  EXPECT_EQ(bank_conflicts(stride(0), kAllLanes, 4), 0);  // One word for all.
  EXPECT_EQ(bank_conflicts(stride(2), kAllLanes, 2), 0);  // Two lanes share a word.
  EXPECT_EQ(bank_conflicts(stride(8), kAllLanes, 4), 1);  // Every second bank, twice.
  EXPECT_EQ(bank_conflicts(stride(128), kAllLanes, 4), 31);
  EXPECT_EQ(bank_conflicts(stride(128), 0xff, 4), 7);
  EXPECT_EQ(bank_conflicts(stride(132), kAllLanes, 4), 0);  // The usual padding.
  EXPECT_EQ(bank_conflicts(stride(8), kAllLanes, 8), 0);    // Two passes are the least.
  EXPECT_EQ(bank_conflicts(stride(16), kAllLanes, 16), 0);  // Four passes are.
  EXPECT_EQ(bank_conflicts(stride(128), kAllLanes, 16), 4 * 7);
  EXPECT_EQ(bank_conflicts(stride(32), kAllLanes, 32), 2 * 4 * 1);
}

class Locate : public testing::Test {
 protected:
  uint32_t locate_all(const std::array<int64_t, kLanes>& index, uint32_t mask, int64_t width,
                      const Extent& extent) {
    const Access access{.site = {.block = 2, .first_thread = 64, .mask = mask},
                        .buffer = kir::BufferId{0},
                        .declaration = &buffer_,
                        .index = reinterpret_cast<const std::byte*>(index.data()),
                        .element_bytes = 4,
                        .bytes = 4 * width};
    return locate(access, extent, &addresses_, &log_);
  }
  kir::Buffer buffer_{.name = "x", .value = {}};
  LaneAddresses addresses_{};
  FindingLog log_{8};
};

TEST_F(Locate, KeepsLanesInsideAndNamesTheFirstOutside) {
  std::array<int64_t, kLanes> index{};
  for (size_t i = 0; i < kLanes; ++i) index[i] = static_cast<int64_t>(i);
  EXPECT_EQ(locate_all(index, kAllLanes, 1, {0, 40, 0}), 0x3ffU);
  EXPECT_EQ(addresses_[9], 36);
  ASSERT_EQ(log_.findings().size(), 1U);
  const Finding& finding = log_.findings().front();
  EXPECT_EQ(finding.kind, FindingKind::kGlobalOutOfBounds);
  EXPECT_EQ(finding.index, 10);
  EXPECT_EQ(finding.thread, 74);
  EXPECT_EQ(finding.count, 22);
}

TEST_F(Locate, IgnoresLanesThatAreNotActive) {
  std::array<int64_t, kLanes> index{};
  index.fill(1'000'000);
  index[3] = 0;
  EXPECT_EQ(locate_all(index, 1U << 3, 1, {0, 4, 0}), 1U << 3);
  EXPECT_TRUE(log_.findings().empty());
}

TEST_F(Locate, SurvivesIndicesThatOverflow) {
  std::array<int64_t, kLanes> index{};
  index.fill(INT64_MAX);
  EXPECT_EQ(locate_all(index, kAllLanes, 1, {0, 4, 0}), 0U);
  index.fill(INT64_MIN);
  EXPECT_EQ(locate_all(index, kAllLanes, 1, {-8, 4, 0}), 0U);
  EXPECT_EQ(log_.findings().front().count, 64);
}

TEST_F(Locate, AllowsIndicesBelowElementZero) {
  std::array<int64_t, kLanes> index{};
  index.fill(-2);
  EXPECT_EQ(locate_all(index, kAllLanes, 1, {-8, 4, 0}), kAllLanes);
  EXPECT_EQ(addresses_[0], -8);
  EXPECT_TRUE(log_.findings().empty());
}

TEST_F(Locate, ReportsVectorsThatThePromisedAlignmentDoesNotCover) {
  std::array<int64_t, kLanes> index{};
  index.fill(4);
  EXPECT_EQ(locate_all(index, kAllLanes, 4, {0, 64, 0}), kAllLanes);
  EXPECT_TRUE(log_.findings().empty());
  EXPECT_EQ(locate_all(index, kAllLanes, 4, {0, 64, 8}), kAllLanes);
  ASSERT_EQ(log_.findings().size(), 1U);
  EXPECT_EQ(log_.findings().front().kind, FindingKind::kMisaligned);
  EXPECT_EQ(log_.findings().front().count, 32);
}

}  // namespace sinter::interpreter::memory_access_test
