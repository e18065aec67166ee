#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "runtime/cache/kernel_cache.h"
#include "runtime/tuning/tuning_database.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/runtime/scratch_directory.h"

// Processes that share a kernel cache or a tuning database and are killed at random moments. The
// number of kills is SINTER_TORTURE_KILLS; with SINTER_TORTURE_RESULT the counts go to that file,
// a line of JSON for each test.

namespace sinter::torture_test {

using Clock = std::chrono::steady_clock;

int kills_wanted(int otherwise) {
  const char* text = std::getenv("SINTER_TORTURE_KILLS");
  return text != nullptr ? std::max(1, std::atoi(text)) : otherwise;
}

/// Counters that all processes share.
class SharedCounts {
 public:
  enum Name {
    kLookups,
    kHits,
    kCompiled,
    kWrong,
    kFailed,
    kWaits,
    kReads,
    kWrites,
    kSlowest,
    kCount
  };
  SharedCounts()
      : at_(static_cast<std::atomic<int64_t>*>(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  SharedCounts(const SharedCounts&) = delete;
  SharedCounts& operator=(const SharedCounts&) = delete;
  ~SharedCounts() { ::munmap(at_, kBytes); }
  std::atomic<int64_t>& operator[](Name name) { return at_[name]; }
  void raise(Name name, int64_t value) {
    int64_t before = at_[name];
    while (before < value && !at_[name].compare_exchange_weak(before, value)) {
    }
  }

 private:
  static constexpr size_t kBytes = sizeof(std::atomic<int64_t>) * kCount;
  std::atomic<int64_t>* at_;  // The system gives zeros.
};

void record(const std::map<std::string, int64_t>& counts) {
  const char* path = std::getenv("SINTER_TORTURE_RESULT");
  if (path == nullptr) return;
  std::ofstream out(path, std::ios::app);
  out << "{\"test\": \"" << ::testing::UnitTest::GetInstance()->current_test_info()->name() << '"';
  for (const auto& [name, count] : counts) out << ", \"" << name << "\": " << count;
  out << "}\n";
}

pid_t start(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  body();
  ::_exit(0);
}

/// Keeps so many processes at work, kills one at random after another, and the rest at the end.
/// `before_each` may wait for what a process is to have done before its time to live is drawn.
void kill_at_random(
    int processes, int kills, const std::function<void(int)>& work,
    const std::function<void()>& after_each = [] {},
    const std::function<void(int)>& before_each = [](int) {}) {
  std::mt19937 random(1);
  std::vector<pid_t> children;
  int number = 0;
  for (int i = 0; i < processes; ++i) children.push_back(start([&] { work(number); })), ++number;
  for (int i = 0; i < kills; ++i) {
    before_each(i);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    pid_t& victim = children[random() % children.size()];
    ::kill(victim, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(victim, &status, 0), victim);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a process ended by itself, with " << WEXITSTATUS(status);
    after_each();
    victim = start([&] { work(number); });
    ++number;
  }
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST(Torture, LookupsOfKilledAndLivingProcessesGiveTheRightKernel) {
  constexpr int kWriters = 64;
  constexpr int kKernels = 10;
  const ScratchDirectory scratch;
  SharedCounts counts;
  const int kills = kills_wanted(200);
  const KernelCacheOptions options = {.directory = scratch.path(), .max_disk_bytes = 20'000};
  kill_at_random(kWriters, kills, [&](int number) {
    for (int round = number;; ++round) {
      const int kernel = round * 7 % kKernels;
      KernelCache cache(options);
      const auto begin = Clock::now();
      const auto found = cache.get_or_compile(sample_key(static_cast<uint64_t>(kernel)),
                                              [&] { return sample_kernel(kernel, 3000); });
      counts.raise(SharedCounts::kSlowest, (Clock::now() - begin) / std::chrono::milliseconds(1));
      const KernelCacheStatistics statistics = cache.statistics();
      ++counts[SharedCounts::kLookups];
      if (!found) {
        ++counts[SharedCounts::kFailed];
      } else if (*found->kernel != sample_kernel(kernel, 3000) || statistics.damaged != 0) {
        ++counts[SharedCounts::kWrong];
      } else {
        ++counts[found->origin == KernelOrigin::kDisk ? SharedCounts::kHits
                                                      : SharedCounts::kCompiled];
      }
      counts[SharedCounts::kWaits] += statistics.waits;
    }
  });
  EXPECT_GT(counts[SharedCounts::kHits], 0);
  EXPECT_EQ(counts[SharedCounts::kFailed], 0);
  EXPECT_EQ(counts[SharedCounts::kWrong], 0);
  EXPECT_TRUE(DiskCache(scratch.path(), 20'000).verify()->empty());
  record({{"processes", kWriters},
          {"kills", kills},
          {"lookups", counts[SharedCounts::kLookups]},
          {"hits", counts[SharedCounts::kHits]},
          {"compiled", counts[SharedCounts::kCompiled]},
          {"waits", counts[SharedCounts::kWaits]},
          {"slowest_ms", counts[SharedCounts::kSlowest]},
          {"wrong", counts[SharedCounts::kWrong]},
          {"failed", counts[SharedCounts::kFailed]}});
}

constexpr uint64_t kSegments = 40;

std::vector<TuningRecord> records_of_change(double us) {
  std::vector<TuningRecord> out;
  for (uint64_t segment = 1; segment <= kSegments; ++segment) {
    out.push_back({.key = {.graph = "aa", .extents = "rows=1", .device = "d", .toolkit = "t"},
                   .tuned = {.segment = segment,
                             .schedule = std::string(100, 's'),
                             .tuned_us = us,
                             .untuned_us = us,
                             .samples = 15},
                   .fusion = "f",
                   .measured_at = "2026-11-23T10:00:00Z"});
  }
  return out;
}

/// Nothing, or all records of one change.
bool is_whole(const Result<std::vector<TuningRecord>>& records) {
  if (!records || (!records->empty() && records->size() != kSegments)) return false;
  return std::ranges::all_of(*records, [&](const TuningRecord& one) {
    return one.tuned.tuned_us == records->front().tuned.tuned_us;
  });
}

bool reads_whole(const std::filesystem::path& path) {
  const auto database = TuningDatabase::open(path, TuningDatabase::Mode::kRead);
  return database && is_whole(database->list());
}

TEST(Torture, DatabasesOfKilledWritersAreRead) {
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "t.db";
  SharedCounts counts;
  const int kills = kills_wanted(200);
  int64_t journals = 0;
  int64_t failed = 0;
  kill_at_random(
      1, kills,
      [&](int number) {
        for (double us = 1.0 + number;; us += 0.001) {
          auto database = TuningDatabase::open(path, TuningDatabase::Mode::kCreate);
          if (!database || !database->store(records_of_change(us))) ::_exit(1);
          ++counts[SharedCounts::kWrites];
        }
      },
      [&] {
        const bool exists = std::filesystem::exists(path);
        if (std::filesystem::exists(path.string() + "-journal")) ++journals;
        if (exists && !reads_whole(path)) ++failed;
      },
      // Every other writer has committed once before it may be killed, however busy the machine is.
      [&](int kill) {
        if (kill % 2 == 0) return;
        const int64_t before = counts[SharedCounts::kWrites];
        const auto end = Clock::now() + std::chrono::seconds(10);
        while (counts[SharedCounts::kWrites] == before && Clock::now() < end)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
  EXPECT_EQ(failed, 0);
  EXPECT_GE(counts[SharedCounts::kWrites], kills / 2);
  record({{"kills", kills},
          {"changes", counts[SharedCounts::kWrites]},
          {"journals_left", journals},
          {"failed_reads", failed}});
}

TEST(Torture, NeitherReadersNorWritersStarve) {
  constexpr int kWriters = 4;
  constexpr int kReaders = 4;
  const ScratchDirectory scratch;
  const auto path = scratch.path() / "t.db";
  {
    auto database = TuningDatabase::open(path, TuningDatabase::Mode::kCreate);
    ASSERT_TRUE(database && database->store(records_of_change(1.0)));
  }
  SharedCounts counts;
  const auto end = Clock::now() + std::chrono::milliseconds(10 * kills_wanted(200));
  std::vector<pid_t> children;
  for (int i = 0; i < kWriters + kReaders; ++i) {
    children.push_back(start([&] {
      const bool writes = i < kWriters;
      for (double us = i; Clock::now() < end; us += 0.001) {
        const auto begin = Clock::now();
        bool right = true;
        if (writes) {
          auto database = TuningDatabase::open(path, TuningDatabase::Mode::kWrite);
          right = database && database->store(records_of_change(us));
        } else {
          right = reads_whole(path);
        }
        counts.raise(SharedCounts::kSlowest, (Clock::now() - begin) / std::chrono::milliseconds(1));
        if (!right) ++counts[SharedCounts::kFailed];
        ++counts[writes ? SharedCounts::kWrites : SharedCounts::kReads];
      }
    }));
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  EXPECT_EQ(counts[SharedCounts::kFailed], 0);
  EXPECT_GT(counts[SharedCounts::kReads], kReaders);
  EXPECT_GT(counts[SharedCounts::kWrites], kWriters);
  record({{"writers", kWriters},
          {"readers", kReaders},
          {"changes", counts[SharedCounts::kWrites]},
          {"reads", counts[SharedCounts::kReads]},
          {"slowest_ms", counts[SharedCounts::kSlowest]},
          {"failed", counts[SharedCounts::kFailed]}});
}

}  // namespace sinter::torture_test
