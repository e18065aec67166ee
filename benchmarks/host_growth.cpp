#include <benchmark/benchmark.h>

#include "benchmarks/host_stages.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/pipeline.h"

namespace sinter::bench {
namespace {

/// n pointwise ops, each on the one before: nothing that simplification could remove.
Fusion chain(int64_t n) {
  FusionBuilder b("chain");
  const Extent elements = b.symbol("elements");
  const ValueId x = b.input(DType::kF32, {elements}, "x");
  ValueId value = x;
  for (int64_t i = 0; i < n; ++i) value = i % 2 == 0 ? b.add(value, x) : b.mul(value, x);
  b.output(value, "y");
  return b.build();
}

const ExtentValues kExtents = {{"elements", int64_t{1} << 24}};

void simplify_chain(benchmark::State& state) {
  const Fusion fusion = chain(state.range(0));
  const Fusion specialized = specialize(fusion, *bind_extents(fusion, kExtents));
  for ([[maybe_unused]] auto _ : state) {
    Fusion result = simplify(specialized);
    benchmark::DoNotOptimize(result);
  }
  state.SetComplexityN(state.range(0));
}

void plan_chain(benchmark::State& state) {
  const Fusion fusion = chain(state.range(0));
  for ([[maybe_unused]] auto _ : state) {
    auto result = plan(fusion, kExtents, planned_device());
    benchmark::DoNotOptimize(result);
  }
  state.SetComplexityN(state.range(0));
}

void emit_chain(benchmark::State& state) {
  const auto planned_chain = plan(chain(state.range(0)), kExtents, planned_device());
  const SegmentPlan& segment = planned_chain->segments.front();
  for ([[maybe_unused]] auto _ : state) {
    auto result = emit(segment.facts, segment.chosen().schedule);
    benchmark::DoNotOptimize(result);
  }
  state.SetComplexityN(state.range(0));
}

void register_chain(const char* name, void (*run)(benchmark::State&)) {
  benchmark::RegisterBenchmark(name, run)
      ->RangeMultiplier(10)
      ->Range(10, 1000)
      ->Unit(benchmark::kMicrosecond)
      ->Complexity();
}

}  // namespace

void register_growth() {
  register_chain("growth/simplify", simplify_chain);
  register_chain("growth/plan", plan_chain);
  register_chain("growth/emit", emit_chain);
}

}  // namespace sinter::bench
