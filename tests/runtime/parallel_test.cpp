#include "runtime/compile/parallel.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace sinter::parallel_test {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges ranges_of(int64_t count, int64_t range_size, int threads) {
  Ranges out;
  std::mutex mutex;
  for_each_range(count, range_size, threads, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    out.emplace_back(begin, end);
  });
  std::ranges::sort(out);
  return out;
}

TEST(Parallel, RangesCoverAllElementsOnceForAnyNumberOfThreads) {
  for (const int threads : {0, 1, 2, 7}) {
    EXPECT_EQ(ranges_of(10, 4, threads), (Ranges{{0, 4}, {4, 8}, {8, 10}})) << threads;
    EXPECT_EQ(ranges_of(8, 4, threads), (Ranges{{0, 4}, {4, 8}})) << threads;
    EXPECT_EQ(ranges_of(3, 4, threads), (Ranges{{0, 3}})) << threads;
    EXPECT_EQ(ranges_of(0, 4, threads), Ranges{}) << threads;
    EXPECT_EQ(ranges_of(1000, 1, threads).size(), 1000U) << threads;
  }
}

TEST(Parallel, UsesAsManyThreadsAsAskedFor) {
  constexpr int kThreads = 5;
  // Every body waits for the others, so each has a thread of its own.
  std::atomic<int> arrived = 0;
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for_each_range(kThreads, 1, kThreads, [&](int64_t, int64_t) {
    ++arrived;
    while (arrived < kThreads) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen.size(), static_cast<size_t>(kThreads));
}

TEST(Parallel, OneRangeRunsOnTheCaller) {
  std::thread::id seen;
  for_each_range(4, 4, 0, [&](int64_t, int64_t) { seen = std::this_thread::get_id(); });
  EXPECT_EQ(seen, std::this_thread::get_id());
}

TEST(Parallel, RethrowsWhatABodyThrows) {
  for (const int threads : {0, 1, 4}) {
    std::atomic<int64_t> done = 0;
    EXPECT_THROW(for_each_range(100'000, 1, threads,
                                [&](int64_t begin, int64_t) {
                                  if (begin == 50) throw std::runtime_error("range 50");
                                  ++done;
                                }),
                 std::runtime_error)
        << threads;
    EXPECT_LT(done, 99'999) << "the ranges that remain are left out";
  }
  EXPECT_EQ(ranges_of(10, 1, 0).size(), 10U) << "the cores are free again";
}

TEST(Parallel, LoopsInsideAndBesideEachOtherFinish) {
  std::atomic<int64_t> total = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for_each_range(20, 1, 0, [&](int64_t, int64_t) {
        for_each_range(50, 3, 0, [&](int64_t begin, int64_t end) { total += end - begin; });
      });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 3 * 20 * 50);
}

}  // namespace sinter::parallel_test
