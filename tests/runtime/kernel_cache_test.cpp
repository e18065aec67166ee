#include "runtime/cache/kernel_cache.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <map>
#include <stdexcept>
#include <thread>

#include "tests/runtime/sample_kernel.h"
#include "tests/runtime/scratch_directory.h"

namespace sinter::kernel_cache_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Result<CompiledKernel> not_called() {
  ADD_FAILURE() << "compiled what should have been in the cache";
  return sample_kernel();
}

TEST(KernelCache, AnswersFromMemoryThenFromDisk) {
  const ScratchDirectory scratch;
  const KernelCacheOptions options = {.directory = scratch.path()};
  KernelCache first(options);
  const auto compiled = first.get_or_compile(sample_key(), [] { return sample_kernel(); }).value();
  EXPECT_EQ(compiled.origin, KernelOrigin::kCompiled);
  const auto remembered = first.get_or_compile(sample_key(), not_called).value();
  EXPECT_EQ(remembered.origin, KernelOrigin::kMemory);
  EXPECT_EQ(remembered.kernel, compiled.kernel);

  KernelCache second(options);
  const auto loaded = second.get_or_compile(sample_key(), not_called).value();
  EXPECT_EQ(loaded.origin, KernelOrigin::kDisk);
  EXPECT_EQ(*loaded.kernel, sample_kernel());

  const KernelCacheStatistics of_first = {.memory_hits = 1, .misses = 1};
  EXPECT_EQ(first.statistics(), of_first);
  const KernelCacheStatistics of_second = {.disk_hits = 1};
  EXPECT_EQ(second.statistics(), of_second);
}

TEST(KernelCache, WorksWithoutADirectory) {
  KernelCache cache({});
  EXPECT_EQ(cache.disk(), nullptr);
  ASSERT_TRUE(cache.get_or_compile(sample_key(), [] { return sample_kernel(); }));
  EXPECT_EQ(cache.get_or_compile(sample_key(), not_called)->origin, KernelOrigin::kMemory);
  cache.clear_memory();
  EXPECT_EQ(cache.get_or_compile(sample_key(), [] { return sample_kernel(); })->origin,
            KernelOrigin::kCompiled);
}

TEST(KernelCache, ThreadsThatAskAtOnceShareOneCompilation) {
  constexpr int kThreads = 16;
  KernelCache cache({});
  std::atomic<int> compilations = 0;
  std::vector<CompiledKernelPtr> kernels(kThreads);
  {
    std::barrier start(kThreads);
    std::vector<std::jthread> threads;
    for (CompiledKernelPtr& kernel : kernels) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        kernel = cache
                     .get_or_compile(sample_key(),
                                     [&] {
                                       ++compilations;
                                       std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                       return sample_kernel();
                                     })
                     ->kernel;
      });
    }
  }
  EXPECT_EQ(compilations, 1);
  for (const CompiledKernelPtr& kernel : kernels) EXPECT_EQ(kernel, kernels[0]);
  EXPECT_EQ(cache.statistics().misses, 1);
  EXPECT_EQ(cache.statistics().memory_hits, kThreads - 1);
}

TEST(KernelCache, DifferentKernelsCompileAtOnce) {
  KernelCache cache({});
  std::latch both_are_compiling(2);
  const auto compile = [&] {
    both_are_compiling.arrive_and_wait();  // Hangs if one waits for the other.
    return Result<CompiledKernel>(sample_kernel());
  };
  std::jthread other([&] { EXPECT_TRUE(cache.get_or_compile(sample_key(1), compile)); });
  EXPECT_TRUE(cache.get_or_compile(sample_key(2), compile));
}

TEST(KernelCache, AFailureIsNotKept) {
  KernelCache cache({});
  const auto failed = cache.get_or_compile(sample_key(), []() -> Result<CompiledKernel> {
    return fail({.kind = ErrorKind::kDeviceError, .message = "no luck"});
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no luck");
  EXPECT_TRUE(cache.get_or_compile(sample_key(), [] { return sample_kernel(); }));
}

TEST(KernelCache, AnExceptionReachesTheCallerAndIsNotKept) {
  KernelCache cache({});
  EXPECT_THROW(
      (void)cache.get_or_compile(
          sample_key(), []() -> Result<CompiledKernel> { throw std::runtime_error("no luck"); }),
      std::runtime_error);
  EXPECT_TRUE(cache.get_or_compile(sample_key(), [] { return sample_kernel(); }));
}

TEST(KernelCache, MemoryIsBoundedAndForgetsTheLeastRecentlyUsed) {
  KernelCache cache({.max_memory_bytes = 25'000});
  const auto ask = [&](uint64_t i) {
    return cache.get_or_compile(sample_key(i), [] { return sample_kernel(0, 10'000); })->origin;
  };
  EXPECT_EQ(ask(0), KernelOrigin::kCompiled);
  EXPECT_EQ(ask(1), KernelOrigin::kCompiled);
  EXPECT_EQ(ask(0), KernelOrigin::kMemory);
  EXPECT_EQ(ask(2), KernelOrigin::kCompiled);  // Drops 1.
  EXPECT_EQ(ask(0), KernelOrigin::kMemory);
  EXPECT_EQ(ask(1), KernelOrigin::kCompiled);
}

TEST(KernelCache, RebuildsADamagedEntryAndReportsIt) {
  const ScratchDirectory scratch;
  std::vector<std::string> reports;
  const KernelCacheOptions options = {
      .directory = scratch.path(),
      .on_trouble = [&](const Error& error) { reports.push_back(error.text()); }};
  ASSERT_TRUE(KernelCache(options).get_or_compile(sample_key(), [] { return sample_kernel(); }));
  KernelCache cache(options);
  fs::resize_file(cache.disk()->path_of(sample_key()), 60);

  const auto rebuilt = cache.get_or_compile(sample_key(), [] { return sample_kernel(); }).value();
  EXPECT_EQ(rebuilt.origin, KernelOrigin::kCompiled);
  const KernelCacheStatistics expected = {.misses = 1, .damaged = 1};
  EXPECT_EQ(cache.statistics(), expected);
  EXPECT_THAT(reports, ::testing::ElementsAre(HasSubstr("is damaged")));
  EXPECT_EQ(KernelCache(options).get_or_compile(sample_key(), not_called)->origin,
            KernelOrigin::kDisk);
}

TEST(KernelCache, CompilesOnWhenTheDirectoryCannotBeWritten) {
  const ScratchDirectory scratch;
  std::ofstream(scratch.path() / "file") << "in the way";
  std::vector<std::string> reports;
  KernelCache cache({.directory = scratch.path() / "file" / "cache",
                     .on_trouble = [&](const Error& error) { reports.push_back(error.text()); }});
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(cache.get_or_compile(sample_key(i), [] { return sample_kernel(); })->origin,
              KernelOrigin::kCompiled);
  }
  EXPECT_EQ(cache.get_or_compile(sample_key(0), not_called)->origin, KernelOrigin::kMemory);
  EXPECT_EQ(cache.statistics().write_failures, 2);
  EXPECT_THAT(reports, ::testing::Each(HasSubstr("Not a directory")));
  EXPECT_EQ(reports.size(), 2U);
}

// Runs `body` in so many processes at once, and returns how many of them gave each status.
std::map<int, int> in_processes(int count, const std::function<int(int)>& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body(i));
    children.push_back(child);
  }
  std::map<int, int> out;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ++out[WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)];
  }
  return out;
}

Result<CompiledKernel> compile_slowly() {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return sample_kernel();
}

TEST(KernelCache, ProcessesThatAskAtOnceShareOneCompilation) {
  const ScratchDirectory scratch;
  constexpr int kProcesses = 64;
  const auto statuses = in_processes(kProcesses, [&](int) {
    KernelCache cache({.directory = scratch.path()});
    const auto found = cache.get_or_compile(sample_key(), compile_slowly);
    if (!found || *found->kernel != sample_kernel()) return 2;
    return found->origin == KernelOrigin::kCompiled ? 1 : 0;
  });
  EXPECT_EQ(statuses, (std::map<int, int>{{0, kProcesses - 1}, {1, 1}}));
}

TEST(KernelCache, ProcessesThatAskForOthersDoNotWait) {
  const ScratchDirectory scratch;
  KernelCache cache({.directory = scratch.path()});
  const auto other = [&] {
    EXPECT_EQ(in_processes(1,
                           [&](int) {
                             KernelCache own({.directory = scratch.path()});
                             (void)own.get_or_compile(sample_key(1),
                                                      [] { return sample_kernel(); });
                             return static_cast<int>(own.statistics().waits);
                           }),
              (std::map<int, int>{{0, 1}}));
    return sample_kernel();
  };
  ASSERT_TRUE(cache.get_or_compile(sample_key(2), other));
}

TEST(KernelCache, AProcessThatNeverFinishesIsNotWaitedForForever) {
  const ScratchDirectory scratch;
  KernelCache holder({.directory = scratch.path()});
  KernelCacheStatistics seen;
  const auto meanwhile = [&] {
    KernelCache cache({.directory = scratch.path(), .max_wait = std::chrono::milliseconds(50)});
    EXPECT_EQ(cache.get_or_compile(sample_key(), [] { return sample_kernel(); })->origin,
              KernelOrigin::kCompiled);
    seen = cache.statistics();
    return sample_kernel();
  };
  ASSERT_TRUE(holder.get_or_compile(sample_key(), meanwhile));
  const KernelCacheStatistics expected = {.misses = 1, .waits = 1, .waits_given_up = 1};
  EXPECT_EQ(seen, expected);
}

TEST(KernelCache, AProcessThatDiesWhileItCompilesIsNotWaitedFor) {
  const ScratchDirectory scratch;
  EXPECT_EQ(in_processes(1,
                         [&](int) {
                           KernelCache cache({.directory = scratch.path()});
                           (void)cache.get_or_compile(sample_key(), []() -> Result<CompiledKernel> {
                             ::kill(::getpid(), SIGKILL);
                             return sample_kernel();
                           });
                           return 0;
                         }),
            (std::map<int, int>{{128 + SIGKILL, 1}}));
  KernelCache cache({.directory = scratch.path()});
  EXPECT_EQ(cache.get_or_compile(sample_key(), [] { return sample_kernel(); })->origin,
            KernelOrigin::kCompiled);
  EXPECT_EQ(cache.statistics().waits, 0);
}

TEST(KernelCache, WorksWhereNothingCanBeLocked) {
  const ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo((scratch.path() / "compiling.lock").c_str(), 0600), 0);
  KernelCache first({.directory = scratch.path()});
  ASSERT_TRUE(first.get_or_compile(sample_key(), [] { return sample_kernel(); }));
  KernelCache second({.directory = scratch.path()});
  EXPECT_EQ(second.get_or_compile(sample_key(), not_called)->origin, KernelOrigin::kDisk);
}

TEST(KernelCache, CountsEvictions) {
  const ScratchDirectory scratch;
  KernelCache cache({.directory = scratch.path(), .max_disk_bytes = 5000});
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(cache.get_or_compile(sample_key(i), [] { return sample_kernel(0, 2000); }));
  }
  EXPECT_EQ(cache.statistics().evicted, 2);
}

// Sets a variable for a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

struct EnvironmentCase {
  const char* cache_dir;
  const char* xdg_cache_home;
  const char* home;
  const char* disable;
  const char* expected;
};

TEST(KernelCacheOptions, TakeTheDirectoryFromTheEnvironment) {
  const EnvironmentCase cases[] = {
      {"/explicit", "/xdg", "/home/me", nullptr, "/explicit"},
      {nullptr, "/xdg", "/home/me", nullptr, "/xdg/sinter"},
      {"", "relative", "/home/me", nullptr, "/home/me/.cache/sinter"},
      {nullptr, nullptr, "/home/me", "0", "/home/me/.cache/sinter"},
      {"/explicit", "/xdg", "/home/me", "1", ""},
      {nullptr, nullptr, nullptr, nullptr, ""},
  };
  for (const EnvironmentCase& test : cases) {
    const ScopedVariable cache_dir("SINTER_CACHE_DIR", test.cache_dir);
    const ScopedVariable xdg("XDG_CACHE_HOME", test.xdg_cache_home);
    const ScopedVariable home("HOME", test.home);
    const ScopedVariable disable("SINTER_CACHE_DISABLE", test.disable);
    EXPECT_EQ(KernelCacheOptions::from_environment().directory, test.expected);
  }
}

}  // namespace sinter::kernel_cache_test
