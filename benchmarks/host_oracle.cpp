#include <benchmark/benchmark.h>

#include <vector>

#include "benchmarks/host_stages.h"
#include "runtime/check/host_execution.h"

namespace sinter::bench {
namespace {

/// layer_norm_backward over bf16: sums along rows and along columns.
struct Problem {
  Fusion fusion = find_canned_fusion("layer_norm_backward")->build();
  Binding binding = bind_extents(fusion, {{"rows", 1024}, {"cols", 2048}}).value();
  [[nodiscard]] int64_t elements() const { return int64_t{1024} * 2048; }
};

void per_element(benchmark::State& state, const Problem& problem) {
  state.counters["per_element"] = benchmark::Counter(
      static_cast<double>(problem.elements()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void evaluation(benchmark::State& state, int threads) {
  const Problem problem;
  const std::vector<HostTensor> inputs = sample_inputs(problem.fusion, problem.binding, 1);
  for ([[maybe_unused]] auto _ : state) {
    OracleResult result = evaluate(problem.fusion, problem.binding, inputs, {.threads = threads});
    benchmark::DoNotOptimize(result);
  }
  per_element(state, problem);
}

void sampling(benchmark::State& state) {
  const Problem problem;
  for ([[maybe_unused]] auto _ : state) {
    auto inputs = sample_inputs(problem.fusion, problem.binding, 1);
    benchmark::DoNotOptimize(inputs);
  }
  per_element(state, problem);
}

/// The first output, which is as large as the problem, against itself.
void comparison(benchmark::State& state) {
  const Problem problem;
  const OracleResult expected =
      evaluate(problem.fusion, problem.binding, sample_inputs(problem.fusion, problem.binding, 1));
  const OracleOutput& output = expected.outputs.front();
  const HostTensor actual = HostTensor::of(output.type, output.sizes, output.real);
  for ([[maybe_unused]] auto _ : state) {
    auto found = judge(expected, 0, actual);
    benchmark::DoNotOptimize(found);
  }
  per_element(state, problem);
}

}  // namespace

void register_oracle() {
  const auto add = [](const char* name, auto run) {
    // Several threads share the work: the wall clock is what a user waits for.
    benchmark::RegisterBenchmark(name, run)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  add("oracle/evaluate/one_thread", [](benchmark::State& state) { evaluation(state, 1); });
  add("oracle/evaluate/idle_cores", [](benchmark::State& state) { evaluation(state, 0); });
  add("oracle/sample_inputs", sampling);
  add("oracle/compare", comparison);
}

}  // namespace sinter::bench
