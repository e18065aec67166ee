#include "runtime/disk_cache.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "runtime/cache_entry.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/runtime/scratch_directory.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kRoomy = int64_t{1} << 30;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> out;
  for (const auto& file : fs::directory_iterator(directory)) out.push_back(file.path().filename());
  return out;
}

void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void age(const fs::path& path, std::chrono::seconds by) {
  fs::last_write_time(path, fs::last_write_time(path) - by);
}

// Runs `body` in a child process; its result is the exit status.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class DiskCacheTest : public ::testing::Test {
 protected:
  ScratchDirectory scratch_;
  fs::path directory_ = scratch_.path() / "a" / "b";  // Not there yet.
  DiskCache cache_{directory_, kRoomy};
};

TEST_F(DiskCacheTest, FindsWhatItStored) {
  EXPECT_EQ(cache_.load(sample_key()).value(), std::nullopt);
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  EXPECT_EQ(cache_.load(sample_key()).value(), sample_kernel());
  EXPECT_EQ(cache_.load(sample_key(1)).value(), std::nullopt);
}

TEST_F(DiskCacheTest, LeavesNoTemporaries) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  EXPECT_THAT(names_in(directory_), ::testing::ElementsAre(sample_key().hex() + ".kernel"));
}

TEST_F(DiskCacheTest, RemovesAndReportsADamagedEntry) {
  const std::string bytes = encode_entry(sample_key(), sample_kernel());
  for (size_t at = 0; at < bytes.size(); at += 13) {
    ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(~damaged[at]);
    overwrite(cache_.path_of(sample_key()), damaged);
    const auto loaded = cache_.load(sample_key());
    ASSERT_FALSE(loaded) << at;
    EXPECT_THAT(loaded.error().message, HasSubstr("is damaged"));
    EXPECT_FALSE(fs::exists(cache_.path_of(sample_key())));
    EXPECT_EQ(cache_.load(sample_key()).value(), std::nullopt);
  }
}

TEST_F(DiskCacheTest, RemovesTruncatedAndMisplacedEntries) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  fs::resize_file(cache_.path_of(sample_key()), 100);
  EXPECT_FALSE(cache_.load(sample_key()));

  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  fs::rename(cache_.path_of(sample_key()), cache_.path_of(sample_key(1)));
  EXPECT_FALSE(cache_.load(sample_key(1)));
  EXPECT_TRUE(names_in(directory_).empty());
}

TEST_F(DiskCacheTest, SurvivesAnEntryThatIsADirectory) {
  fs::create_directories(cache_.path_of(sample_key()));
  const auto loaded = cache_.load(sample_key());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("cannot be read"));
}

TEST_F(DiskCacheTest, EvictsTheLeastRecentlyUsed) {
  const auto size = static_cast<int64_t>(encode_entry(sample_key(), sample_kernel()).size());
  const DiskCache cache(directory_, 3 * size);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.store(sample_key(i), sample_kernel()).value(), 0);
    age(cache.path_of(sample_key(i)), std::chrono::minutes(10 - static_cast<int>(i)));
  }
  ASSERT_TRUE(cache.load(sample_key(0)).value());  // Now the most recently used.
  EXPECT_EQ(cache.store(sample_key(3), sample_kernel()).value(), 1);
  EXPECT_TRUE(cache.load(sample_key(0)).value());
  EXPECT_FALSE(cache.load(sample_key(1)).value());
  EXPECT_TRUE(cache.load(sample_key(2)).value());
  EXPECT_TRUE(cache.load(sample_key(3)).value());
}

TEST_F(DiskCacheTest, NeverExceedsItsBound) {
  const int64_t bound = 5000;
  const DiskCache cache(directory_, bound);
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(cache.store(sample_key(i), sample_kernel(0, 100 + 37 * i)));
    const std::vector<CacheFile> files = cache.list().value();
    int64_t bytes = 0;
    for (const CacheFile& file : files) bytes += file.bytes;
    EXPECT_LE(bytes, bound);
    EXPECT_FALSE(files.empty());
  }
}

TEST_F(DiskCacheTest, DoesNotWriteWhatExceedsTheBoundAlone) {
  const DiskCache cache(directory_, 5000);
  ASSERT_TRUE(cache.store(sample_key(), sample_kernel()));
  const auto stored = cache.store(sample_key(1), sample_kernel(0, 6000));
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_EQ(stored.error().limit, 5000);
  EXPECT_TRUE(cache.load(sample_key()).value());
}

// Permissions do not stop root, on whom tests may run: a file in the directory's place does.
TEST_F(DiskCacheTest, ADirectoryThatCannotBeMadeIsAnError) {
  overwrite(scratch_.path() / "a", "a file");
  const auto stored = cache_.store(sample_key(), sample_kernel());
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().kind, ErrorKind::kResourceExhausted);
  EXPECT_THAT(stored.error().text(),
              ::testing::AllOf(HasSubstr("Not a directory"), HasSubstr("SINTER_CACHE_DIR")));
  EXPECT_EQ(cache_.load(sample_key()).value(), std::nullopt);
}

// A limit on file size fails a write half way, as a full disk does.
TEST_F(DiskCacheTest, AFullDiskLosesNothingThatWasThere) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 2000, .rlim_max = 2000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const auto stored = cache_.store(sample_key(1), sample_kernel(1, 100'000));
    return !stored && stored.error().kind == ErrorKind::kResourceExhausted ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_THAT(names_in(directory_), ::testing::ElementsAre(sample_key().hex() + ".kernel"));
  EXPECT_EQ(cache_.load(sample_key()).value(), sample_kernel());
}

TEST_F(DiskCacheTest, RemovesTemporariesOfKilledProcessesOnly) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  overwrite(directory_ / "tmp-stale", "half");
  age(directory_ / "tmp-stale", std::chrono::hours(2));
  overwrite(directory_ / "tmp-fresh", "half");
  ASSERT_TRUE(cache_.store(sample_key(1), sample_kernel()));
  EXPECT_FALSE(fs::exists(directory_ / "tmp-stale"));
  EXPECT_TRUE(fs::exists(directory_ / "tmp-fresh"));
}

TEST_F(DiskCacheTest, VerifyNamesTheDamagedAndRemovesNothing) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(cache_.store(sample_key(i), sample_kernel()));
  fs::resize_file(cache_.path_of(sample_key(1)), 50);
  const auto damaged = cache_.verify().value();
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_EQ(damaged[0].file.key, sample_key(1));
  EXPECT_THAT(damaged[0].reason, HasSubstr("announces"));
  EXPECT_EQ(cache_.list()->size(), 3U);
}

TEST_F(DiskCacheTest, ClearLeavesForeignFiles) {
  EXPECT_EQ(cache_.clear().value(), 0);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(cache_.store(sample_key(i), sample_kernel()));
  overwrite(directory_ / "notes.txt", "mine");
  overwrite(directory_ / "nothex.kernel", "mine");
  overwrite(directory_ / "tmp-123", "half");
  EXPECT_EQ(cache_.clear().value(), 3);
  EXPECT_THAT(names_in(directory_), ::testing::UnorderedElementsAre("notes.txt", "nothex.kernel"));
}

// Writers, readers and evictions of many processes meet in one small directory.
TEST_F(DiskCacheTest, IsSafeWithManyProcesses) {
  constexpr int kProcesses = 6;
  const DiskCache cache(directory_, 20'000);
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int round = 0; round < 60; ++round) {
        const int i = (round * 5 + process) % 10;
        const auto key = sample_key(static_cast<uint64_t>(i));
        const auto loaded = cache.load(key);
        if (!loaded) ::_exit(1);  // Nothing may ever look damaged.
        if (*loaded && **loaded != sample_kernel(i, 3000)) ::_exit(2);
        if (!cache.store(key, sample_kernel(i, 3000))) ::_exit(3);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_TRUE(cache.verify()->empty());
  EXPECT_FALSE(cache.list()->empty());
  for (const std::string& name : names_in(directory_)) EXPECT_THAT(name, HasSubstr(".kernel"));
}

}  // namespace
}  // namespace sinter
