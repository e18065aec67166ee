// What the host pays: planning, code generation, compilation, cache, checks.
// `--benchmark_filter=plan/` and Google Benchmark's other options choose among them.

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "benchmarks/host_stages.h"

int main(int argc, char** argv) {
  // A few hundred cases: a tenth of the usual time each, unless the caller says otherwise.
  std::string min_time = "--benchmark_min_time=0.05";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.begin() + std::min(argc, 1), min_time.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  const auto compiler = sinter::NvrtcCompiler::open();
  sinter::bench::register_stages();
  sinter::bench::register_layers();
  sinter::bench::register_growth();
  sinter::bench::register_compiler(compiler);
  sinter::bench::register_cold_start(compiler);
  sinter::bench::register_oracle();
#ifndef NDEBUG
  fmt::print(stderr, "This is a Debug build: its figures say nothing about a Release one.\n");
#endif
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
