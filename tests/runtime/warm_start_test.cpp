#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "runtime/compile/compile_plan.h"
#include "scheduler/planning/planner.h"
#include "tests/runtime/scratch_directory.h"
#include "tests/support/canned_fusions.h"

namespace sinter::warm_start_test {

/// What a process did to get its kernel.
struct Start {
  KernelOrigin origin = KernelOrigin::kMemory;
  int64_t compilations = 0;
  int64_t disk_hits = 0;
  size_t cubin_hash = 0;
};

/// Plans and compiles layer norm for an H200, as a program does when it starts.
Result<Start> start(const std::filesystem::path& cache_directory) {
  auto compiler = NvrtcCompiler::open();
  if (!compiler) return fail(compiler.error());
  auto planned = plan(find_canned_fusion("layer_norm")->build(), {{"rows", 8192}, {"cols", 8192}},
                      *find_device("H200"));
  if (!planned) return fail(planned.error());
  KernelCache cache({.directory = cache_directory});
  auto compiled = compile_plan(std::move(*planned), *compiler, cache);
  if (!compiled) return fail(compiled.error());
  const KernelBuild& kernel = compiled->kernels.front();
  return Start{.origin = kernel.origin,
               .compilations = cache.statistics().misses,
               .disk_hits = cache.statistics().disk_hits,
               .cubin_hash = std::hash<std::string>{}(kernel.kernel->cubin)};
}

/// Runs start() in a process of its own; nothing if that process failed.
std::optional<Start> start_in_new_process(const std::filesystem::path& cache_directory) {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    const auto result = start(cache_directory);
    const bool told =
        result && write(ends[1], &*result, sizeof(Start)) == static_cast<ssize_t>(sizeof(Start));
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  Start out;
  const bool heard = read(ends[0], &out, sizeof(Start)) == static_cast<ssize_t>(sizeof(Start));
  close(ends[0]);
  int status = 0;
  const bool ended = waitpid(child, &status, 0) == child && WIFEXITED(status);
  if (!heard || !ended || WEXITSTATUS(status) != 0) return std::nullopt;
  return out;
}

TEST(WarmStart, SecondProcessCompilesNothing) {
  if (const auto compiler = NvrtcCompiler::open(); !compiler)
    GTEST_SKIP() << "no NVRTC: " << compiler.error().message;
  const ScratchDirectory scratch;
  const auto first = start_in_new_process(scratch.path());
  ASSERT_TRUE(first);
  EXPECT_EQ(first->origin, KernelOrigin::kCompiled);
  EXPECT_GE(first->compilations, 1);
  EXPECT_EQ(first->disk_hits, 0);

  const auto second = start_in_new_process(scratch.path());
  ASSERT_TRUE(second);
  EXPECT_EQ(second->origin, KernelOrigin::kDisk);
  EXPECT_EQ(second->compilations, 0);
  EXPECT_EQ(second->disk_hits, first->compilations);
  EXPECT_EQ(second->cubin_hash, first->cubin_hash);
}

}  // namespace sinter::warm_start_test
