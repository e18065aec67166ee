#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

#include "benchmarks/host_stages.h"
#include "runtime/compile/compile_kernel.h"

namespace sinter::bench {
namespace {

/// The layer norm kernel at its planned size, and the architecture of the device it was planned
/// for.
struct Kernel {
  KernelSource source;
  Architecture architecture;
};

Kernel layer_norm_kernel() {
  const auto planned_norm = planned(*find_canned_fusion("layer_norm"));
  const KernelPlan& kernel = planned_norm->kernels.front();
  return {emit(kernel.facts, kernel.chosen().schedule).value(),
          Architecture::parse(architecture_of(planned_device())).value()};
}

void compile_layer_norm(benchmark::State& state, const NvrtcCompiler& compiler) {
  const Kernel kernel = layer_norm_kernel();
  for ([[maybe_unused]] auto _ : state) {
    auto compiled = compiler.compile(kernel.source, kernel.architecture);
    if (!compiled) {
      state.SkipWithError(compiled.error().text().c_str());
      return;
    }
    benchmark::DoNotOptimize(compiled);
  }
}

/// A kernel that memory holds.
void memory_hit(benchmark::State& state, const NvrtcCompiler& compiler) {
  const Kernel kernel = layer_norm_kernel();
  KernelCache cache({});
  (void)compile_kernel(compiler, cache, kernel.source, kernel.architecture);
  for ([[maybe_unused]] auto _ : state) {
    auto found = compile_kernel(compiler, cache, kernel.source, kernel.architecture);
    benchmark::DoNotOptimize(found);
  }
  state.counters["nvrtc_calls"] = static_cast<double>(cache.statistics().misses - 1);
}

/// A kernel that only the disk holds, as at the start of a second process.
void disk_hit(benchmark::State& state, const NvrtcCompiler& compiler) {
  const Kernel kernel = layer_norm_kernel();
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / fmt::format("sinter_benchmark_{}", getpid());
  int64_t compilations = 0;
  {
    KernelCache filled({.directory = directory});
    (void)compile_kernel(compiler, filled, kernel.source, kernel.architecture);
  }
  for ([[maybe_unused]] auto _ : state) {
    KernelCache cache({.directory = directory});
    auto found = compile_kernel(compiler, cache, kernel.source, kernel.architecture);
    benchmark::DoNotOptimize(found);
    compilations += cache.statistics().misses;
  }
  state.counters["nvrtc_calls"] = static_cast<double>(compilations);
  std::filesystem::remove_all(directory);
}

}  // namespace

void register_compiler(const Result<NvrtcCompiler>& compiler) {
  if (!compiler) {
    fmt::print(stderr, "no NVRTC, so compilation and cache are not timed: {}\n",
               compiler.error().message);
    return;
  }
  const auto add = [&](const char* name, auto run, benchmark::TimeUnit unit) {
    benchmark::RegisterBenchmark(
        name, [copy = *compiler, run](benchmark::State& state) { run(state, copy); })
        ->Unit(unit)
        // Several files and folders: the wall clock is what a user waits for.
        ->UseRealTime();
  };
  add("nvrtc/layer_norm", compile_layer_norm, benchmark::kMillisecond);
  add("cache/memory_hit", memory_hit, benchmark::kMicrosecond);
  add("cache/disk_hit", disk_hit, benchmark::kMicrosecond);
}

}  // namespace sinter::bench
