#include <benchmark/benchmark.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "benchmarks/host_stages.h"
#include "runtime/compile/compile_plan.h"
#include "scheduler/planning/planner.h"
#include "tests/support/training_layers.h"

namespace sinter::bench {
namespace {

struct ColdStart {
  size_t kernels = 0;
  int64_t compilations = 0;
  double plan_ms = 0.0;
};

/// What a process pays for its first layer: the plan, and its kernels through a new cache.
Result<ColdStart> start(const Fusion& layer, const NvrtcCompiler& compiler,
                        const std::filesystem::path& directory) {
  const auto begin = std::chrono::steady_clock::now();
  auto made = plan(layer, {{"tokens", 8192}}, planned_device(), {.families = builtin_families()});
  if (!made) return fail(made.error());
  const std::chrono::duration<double, std::milli> planned =
      std::chrono::steady_clock::now() - begin;
  KernelCache cache({.directory = directory});
  auto compiled = compile_plan(std::move(*made), compiler, cache, {.threads = 2});
  if (!compiled) return fail(compiled.error());
  return ColdStart{.kernels = compiled->kernels.size(),
                   .compilations = cache.statistics().misses,
                   .plan_ms = planned.count()};
}

void llama_backward(benchmark::State& state, const NvrtcCompiler& compiler, bool warm) {
  const Fusion layer = llama_layer_backward(kLlama3With8B);
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / fmt::format("sinter_cold_start_{}", getpid());
  if (warm) (void)start(layer, compiler, directory);
  ColdStart last;
  double plan_ms = 0.0;
  for ([[maybe_unused]] auto _ : state) {
    auto started = start(layer, compiler, directory);
    if (!started) {
      state.SkipWithError(started.error().text().c_str());
      break;
    }
    last = *started;
    plan_ms += last.plan_ms;
    if (warm) continue;
    state.PauseTiming();
    std::filesystem::remove_all(directory);
    state.ResumeTiming();
  }
  std::filesystem::remove_all(directory);
  state.counters["kernels"] = static_cast<double>(last.kernels);
  state.counters["nvrtc_calls"] = static_cast<double>(last.compilations);
  state.counters["plan_ms"] = benchmark::Counter(plan_ms, benchmark::Counter::kAvgIterations);
}

}  // namespace

void register_cold_start(const Result<NvrtcCompiler>& compiler) {
  if (!compiler) return;  // register_compiler says so.
  for (const bool warm : {false, true}) {
    benchmark::RegisterBenchmark(
        fmt::format("cold_start/llama_backward/{}", warm ? "warm" : "cold").c_str(),
        [copy = *compiler, warm](benchmark::State& state) { llama_backward(state, copy, warm); })
        ->Unit(benchmark::kMillisecond)
        // Two threads and files: the wall clock is what a user waits for.
        ->UseRealTime();
  }
}

}  // namespace sinter::bench
