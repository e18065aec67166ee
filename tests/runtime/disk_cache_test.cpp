#include "runtime/cache/disk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "runtime/cache/cache_entry.h"
#include "runtime/cache/kernel_cache.h"
#include "tests/runtime/sample_kernel.h"
#include "tests/runtime/scratch_directory.h"

namespace sinter::disk_cache_test {

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

/// Puts something in the place of an entry, and expects that lookups and stores leave it there.
class DiskCachePlaceTest : public DiskCacheTest {
 protected:
  DiskCachePlaceTest() { fs::create_directories(directory_); }
  void expect_left(const std::string& reason) {
    const fs::path path = cache_.path_of(sample_key());
    struct stat before {};
    ASSERT_EQ(::lstat(path.c_str(), &before), 0);
    const auto loaded = cache_.load(sample_key());
    ASSERT_FALSE(loaded);
    EXPECT_FALSE(loaded.error().damaged);
    EXPECT_THAT(loaded.error().message, HasSubstr("cannot be read: " + reason));
    EXPECT_FALSE(cache_.inspect(sample_key()));
    const auto stored = cache_.store(sample_key(), sample_kernel());
    EXPECT_FALSE(stored) << "what cannot be read is not overwritten";
    const auto verified = cache_.verify();
    ASSERT_TRUE(verified);
    EXPECT_EQ(verified->size(), 1U);
    struct stat after {};
    ASSERT_EQ(::lstat(path.c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);

    KernelCache kernels({.directory = directory_});
    const auto found = kernels.get_or_compile(sample_key(1), [] { return sample_kernel(1); });
    ASSERT_TRUE(found);
    EXPECT_EQ(*found->kernel, sample_kernel(1));
  }
  [[nodiscard]] fs::path place() const { return cache_.path_of(sample_key()); }
};

TEST_F(DiskCachePlaceTest, ADirectoryStays) {
  fs::create_directory(place());
  expect_left("it is a directory");
}

TEST_F(DiskCachePlaceTest, AFifoIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(place().c_str(), 0600), 0);
  expect_left("it is no regular file");
}

TEST_F(DiskCachePlaceTest, ASymbolicLinkIsNotFollowed) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  fs::rename(place(), directory_ / "elsewhere");
  fs::create_symlink("elsewhere", place());
  expect_left("it is a symbolic link");
  EXPECT_TRUE(fs::exists(directory_ / "elsewhere"));
}

// The number of the error is that of a link at the entry's place, which is not there.
TEST_F(DiskCachePlaceTest, ALoopOfLinksAboveIsNoLinkInstead) {
  const fs::path loop = directory_ / "loop";
  fs::create_symlink("loop", loop);
  const auto loaded = DiskCache(loop, 1 << 20).load(sample_key());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, testing::Not(testing::HasSubstr("it is a symbolic link")));
}

TEST_F(DiskCachePlaceTest, ASparseFileOfATerabyteIsNotRead) {
  overwrite(place(), "");
  fs::resize_file(place(), uintmax_t{1} << 40);
  const auto begin = std::chrono::steady_clock::now();
  const auto loaded = cache_.load(sample_key());
  ASSERT_FALSE(loaded);
  EXPECT_FALSE(loaded.error().damaged);
  EXPECT_THAT(loaded.error().message, HasSubstr("1099511627776 bytes"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_TRUE(fs::exists(place()));
  // Nor does it push out what is there.
  const DiskCache small(directory_, 5000);
  for (uint64_t i = 1; i < 4; ++i)
    ASSERT_EQ(small.store(sample_key(i), sample_kernel()).value(), 0);
  EXPECT_TRUE(fs::exists(place()));
}

TEST_F(DiskCachePlaceTest, AFileThatOthersMayWriteIsNotBelieved) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  for (const auto mode : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(place(), fs::perms::owner_read | mode);
    const auto loaded = cache_.load(sample_key());
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().message, HasSubstr("other users may write it"));
    EXPECT_TRUE(fs::exists(place()));
    EXPECT_FALSE(cache_.store(sample_key(), sample_kernel()));
  }
  fs::permissions(place(), fs::perms::owner_read);
  EXPECT_EQ(cache_.load(sample_key()).value(), sample_kernel());
}

constexpr uid_t kNobody = 65534;

TEST_F(DiskCachePlaceTest, AFileOfAnotherUserIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  ASSERT_EQ(::chown(place().c_str(), kNobody, kNobody), 0);
  expect_left("it belongs to user 65534");
}

TEST_F(DiskCachePlaceTest, AFileThatMayNotBeReadStays) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  fs::permissions(scratch_.path(), fs::perms::all);
  for (const fs::path& path : {scratch_.path() / "a", directory_, place()})
    ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
  fs::permissions(place(), fs::perms::none);
  EXPECT_EQ(in_child([&] {
              if (::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
              KernelCache cache({.directory = directory_});
              const auto found = cache.get_or_compile(sample_key(), [] { return sample_kernel(); });
              if (!found || *found->kernel != sample_kernel()) return 3;
              return cache.statistics().unreadable == 1 && cache.statistics().damaged == 0 ? 0 : 4;
            }),
            0);
  EXPECT_TRUE(fs::exists(place()));
}

TEST_F(DiskCachePlaceTest, ADirectoryThatEverybodyMayWriteIsRefused) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  fs::permissions(directory_, fs::perms::all);
  const auto loaded = cache_.load(sample_key());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().text(), ::testing::AllOf(HasSubstr("every user may write it"),
                                                      HasSubstr(directory_.string())));
  EXPECT_THAT(cache_.store(sample_key(1), sample_kernel()).error().message,
              HasSubstr("every user may write it"));
  EXPECT_FALSE(cache_.verify());
  KernelCache cache({.directory = directory_});
  EXPECT_EQ(cache.get_or_compile(sample_key(), [] { return sample_kernel(); })->origin,
            KernelOrigin::kCompiled);
  EXPECT_EQ(cache.statistics().unreadable, 1);
}

TEST_F(DiskCachePlaceTest, NothingIsRemovedWhereNoFileCanBeOpened) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  EXPECT_EQ(in_child([&] {
              const rlimit none = {.rlim_cur = 3, .rlim_max = 3};
              if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 2;
              KernelCache cache({.directory = directory_, .max_disk_bytes = 1});
              for (uint64_t i = 0; i < 2; ++i) {
                const auto found =
                    cache.get_or_compile(sample_key(i), [] { return sample_kernel(); });
                if (!found || *found->kernel != sample_kernel()) return 3;
              }
              return cache.statistics().damaged == 0 ? 0 : 4;
            }),
            0);
  EXPECT_EQ(cache_.load(sample_key()).value(), sample_kernel());
}

TEST_F(DiskCacheTest, WhatIsNewIsKeptWhereverTheClockJumps) {
  const auto size = static_cast<int64_t>(encode_entry(sample_key(), sample_kernel()).size());
  const DiskCache cache(directory_, 2 * size);
  ASSERT_TRUE(cache.store(sample_key(0), sample_kernel()));
  ASSERT_TRUE(cache.store(sample_key(1), sample_kernel()));
  // Entry 0 was used while the clock ran ten years fast, entry 1 ten years ago.
  age(cache.path_of(sample_key(0)), -std::chrono::hours(87600));
  age(cache.path_of(sample_key(1)), std::chrono::hours(87600));
  EXPECT_EQ(cache.store(sample_key(2), sample_kernel()).value(), 1);
  EXPECT_FALSE(cache.load(sample_key(0)).value()) << "what is from the future goes first";
  EXPECT_TRUE(cache.load(sample_key(2)).value());
  EXPECT_EQ(cache.store(sample_key(3), sample_kernel()).value(), 1);
  EXPECT_FALSE(cache.load(sample_key(1)).value());
  EXPECT_TRUE(cache.load(sample_key(3)).value());
}

TEST_F(DiskCacheTest, TemporariesGoWhateverTheirTimeUnlessTheirWriterLives) {
  ASSERT_TRUE(cache_.store(sample_key(), sample_kernel()));
  for (const std::string name : {"tmp-future", "tmp-past", "tmp-held"}) {
    overwrite(directory_ / name, "half");
    age(directory_ / name, std::chrono::hours(name == "tmp-future" ? -87600 : 87600));
  }
  const FileDescriptor writer(::open((directory_ / "tmp-held").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);
  ASSERT_TRUE(cache_.store(sample_key(1), sample_kernel()));
  EXPECT_FALSE(fs::exists(directory_ / "tmp-future"));
  EXPECT_FALSE(fs::exists(directory_ / "tmp-past"));
  EXPECT_TRUE(fs::exists(directory_ / "tmp-held"));
}

// A file system of 64 KiB in a mount namespace of the child's own.
TEST_F(DiskCacheTest, AFullFileSystemIsMetByEvictingOnce) {
  fs::create_directories(directory_);
  constexpr int kNoNamespaces = 77;
  const int status = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      return kNoNamespaces;
    (void)::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=64k,mode=700") != 0)
      return kNoNamespaces;
    for (uint64_t i = 0; i < 40; ++i) {  // 40 times 9 KB.
      const auto stored = cache_.store(sample_key(i), sample_kernel(0, 9000));
      if (!stored) return 1;
      if (i == 10 && *stored == 0 && cache_.list()->size() > 7) return 2;
      if (cache_.load(sample_key(i)).value() != sample_kernel(0, 9000)) return 3;
    }
    KernelCache cache({.directory = directory_});
    const auto large =
        cache.get_or_compile(sample_key(99), [] { return sample_kernel(0, 100'000); });
    if (!large || cache.statistics().write_failures != 1) return 4;
    return cache_.verify()->empty() ? 0 : 5;
  });
  if (status == kNoNamespaces) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(status, 0);
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

/// File systems and their servers have clocks of their own: what was just written may be the oldest
/// by its time, and is not what has to go.
TEST_F(DiskCacheTest, NeverEvictsWhatItJustStored) {
  const auto size = static_cast<int64_t>(encode_entry(sample_key(), sample_kernel()).size());
  const DiskCache cache(directory_, 2 * size);
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(cache.store(sample_key(i), sample_kernel()));
    age(cache.path_of(sample_key(i)), std::chrono::seconds(-20));  // Later than now.
  }
  EXPECT_EQ(cache.store(sample_key(2), sample_kernel()).value(), 1);
  EXPECT_TRUE(cache.load(sample_key(2)).value());
}

/// A reader that finds an entry damaged removes what it has read, and not what another process has
/// put in its place meanwhile. Whether the two meet depends on their timing: most runs of this test
/// would see it.
TEST_F(DiskCacheTest, RemovesNoEntryThatReplacedADamagedOne) {
  constexpr int kRounds = 120;
  // Large enough that reading it takes as long as threads take to start.
  const CompiledKernel kernel = sample_kernel(0, 4'000'000);
  ASSERT_TRUE(cache_.store(sample_key(), kernel));
  const fs::path path = cache_.path_of(sample_key());
  const fs::path good = scratch_.path() / "good";
  const fs::path damaged = scratch_.path() / "damaged";
  const fs::path next = directory_ / "next";
  fs::copy(path, good);
  fs::copy(path, damaged);
  std::string bytes = encode_entry(sample_key(), kernel);
  bytes.back() = static_cast<char>(~bytes.back());
  overwrite(damaged, bytes);
  const auto put = [&](const fs::path& file) {
    fs::create_hard_link(file, next);
    fs::rename(next, path);
  };
  std::atomic<int> loads = 0;
  std::atomic<bool> is_over = false;
  std::thread reader([&] {
    while (!is_over) {
      (void)cache_.load(sample_key());
      ++loads;
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    put(damaged);
    std::this_thread::sleep_for(std::chrono::microseconds(round % 60 * 50));
    put(good);
    // A load that began before has ended when two more have.
    for (const int before = loads; loads < before + 2;) std::this_thread::yield();
    EXPECT_TRUE(fs::exists(path)) << "round " << round;
  }
  is_over = true;
  reader.join();
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
  EXPECT_EQ(stored.error().kind, ErrorKind::kInvalidArgument);
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

}  // namespace sinter::disk_cache_test
