#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>
#include <random>

#include "benchmarks/host_stages.h"
#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/pipeline.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/explain.h"

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

/// Decoder layers around external calls; their widths differ where `alike` is false, so that each
/// has graphs of its own.
Fusion layers(int64_t count, bool alike) {
  constexpr int64_t kTokens = 8192;
  constexpr int64_t kHidden = 1024;
  FusionBuilder b("layers");
  ValueId x = b.input(DType::kBF16, {kTokens, kHidden}, "x");
  const auto call = [&](const char* name, ValueId operand, int64_t width) {
    return b.external(name, {operand}, {{DType::kBF16, {kTokens, width}}})[0];
  };
  const auto weight = [&] { return b.input(DType::kBF16, {kHidden}); };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t width = 4 * kHidden + (alike ? 0 : 8 * i);
    const ValueId first = b.cast(rms_norm(b, x, {.weight = weight()}).y, DType::kBF16);
    const ValueId attended = call("attention", call("qkv", first, kHidden), kHidden);
    const ValueId h = b.cast(b.add(x, attended), DType::kBF16);
    const LayerNorm second = layer_norm(b, h, {.weight = weight(), .bias = weight()});
    const ValueId normed = b.cast(second.y, DType::kBF16);
    const ValueId gated = swiglu(b, call("gate", normed, width), call("up", normed, width));
    x = b.cast(b.add(h, call("down", b.cast(gated, DType::kBF16), kHidden)), DType::kBF16);
  }
  b.output(x, "y");
  return b.build();
}

template <bool kAlike>
void plan_layers(benchmark::State& state) {
  const Fusion fusion = layers(state.range(0), kAlike);
  for ([[maybe_unused]] auto _ : state) {
    auto result = plan(fusion, {}, planned_device());
    benchmark::DoNotOptimize(result);
  }
  state.counters["ops"] = static_cast<double>(fusion.ops.size());
  state.SetComplexityN(static_cast<int64_t>(fusion.ops.size()));
}

/// n pointwise functions and row sums without a call between them: each reads two of the last six
/// values, or one and an input. The same for the same n.
Fusion connected(int64_t n) {
  constexpr size_t kWindow = 6;
  constexpr uint32_t kOpsPerSum = 20;
  std::mt19937 random(static_cast<uint32_t>(n));
  FusionBuilder b("connected");
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 2 * kWindow; ++i) inputs.push_back(b.input(DType::kBF16, {4096, 1024}));
  std::vector<ValueId> values(inputs.begin(), inputs.begin() + kWindow);
  const auto recent = [&] { return values[values.size() - 1 - random() % kWindow]; };
  for (int64_t i = 0; i < n; ++i) {
    const ValueId x = recent();
    if (random() % kOpsPerSum == 0) {
      values.push_back(b.mul(x, b.broadcast_over(b.sum(x, {1}), x, {1})));
    } else {
      const ValueId y = random() % 3 == 0 ? inputs[random() % inputs.size()] : recent();
      values.push_back(random() % 2 == 0 ? b.add(x, y) : b.mul(x, y));
    }
  }
  for (size_t i = 1; i <= kWindow; ++i) b.output(b.exp(values[values.size() - i]));
  return b.build();
}

/// n functions of one input, each an output.
Fusion outputs(int64_t n) {
  FusionBuilder b("outputs");
  const ValueId x = b.input(DType::kF32, {4096, 1024}, "x");
  for (int64_t i = 0; i < n; ++i) {
    const ValueId number = b.constant(static_cast<double>(i + 2));
    b.output(i % 2 == 0 ? b.add(x, number) : b.mul(x, number));
  }
  return b.build();
}

/// n functions in a chain, two in turn, each an output.
Fusion alternating(int64_t n) {
  FusionBuilder b("alternating");
  ValueId value = b.input(DType::kF32, {4096, 1024}, "x");
  for (int64_t i = 0; i < n; ++i) {
    value = i % 2 == 0 ? b.exp(value) : b.pointwise(PointwiseFn::kTanh, {value});
    b.output(value);
  }
  return b.build();
}

/// n slices of one input, joined in the opposite order.
Fusion joined_slices(int64_t n) {
  constexpr int64_t kRows = 4096;
  constexpr int64_t kWidth = 4;
  FusionBuilder b("joined_slices");
  const ValueId x = b.input(DType::kF32, {kRows, kWidth * n}, "x");
  std::vector<ValueId> parts;
  for (int64_t i = n; i-- > 0;)
    parts.push_back(b.slice(x, {0, kWidth * i}, {kRows, kWidth * (i + 1)}, {1, 1}));
  b.output(b.concatenate(parts, 1));
  return b.build();
}

/// A chain of n ops in which half of a value is computed on and joined with the other half.
Fusion joined_halves(int64_t n) {
  constexpr int64_t kRows = 4096;
  constexpr int64_t kHalf = 32;
  FusionBuilder b("joined_halves");
  ValueId value = b.input(DType::kF32, {kRows, 2 * kHalf}, "x");
  for (int64_t i = 0; i < n / 4; ++i) {
    const ValueId first = b.slice(value, {0, 0}, {kRows, kHalf}, {1, 1});
    const ValueId second = b.slice(value, {0, kHalf}, {kRows, 2 * kHalf}, {1, 1});
    const ValueId made = i % 2 == 0 ? b.exp(first) : b.pointwise(PointwiseFn::kTanh, {first});
    value = b.concatenate({second, made}, 1);
  }
  b.output(value);
  return b.build();
}

/// A chain of n ops in which each value is joined with the input, and a part of both is the next.
Fusion joined_chain(int64_t n) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kWidth = 32;
  FusionBuilder b("joined_chain");
  const ValueId x = b.input(DType::kF32, {kRows, kWidth}, "x");
  ValueId value = x;
  for (int64_t i = 0; i < n / 2; ++i) {
    const int64_t start = 1 + i % (kWidth - 1);
    const ValueId both = b.concatenate({value, x}, 1);
    value = b.slice(both, {0, start}, {kRows, start + kWidth}, {1, 1});
  }
  b.output(value);
  return b.build();
}

/// n ops, of which each concatenate has what the one before it has, and one part more.
Fusion nested_joins(int64_t n) {
  FusionBuilder b("nested_joins");
  const ValueId x = b.input(DType::kF32, {64, 32}, "x");
  ValueId value = x;
  for (int64_t i = 0; i < n / 2; ++i) value = b.concatenate({value, b.exp(x)}, 0);
  b.output(value);
  return b.build();
}

/// n ops on any two of the last so many values, one in twenty a sum of rows that its row is
/// multiplied by; what nothing reads is an output. The same for the same n.
template <size_t kWindow>
Fusion wide(int64_t n) {
  constexpr size_t kInputs = 16;
  constexpr uint32_t kOpsPerSum = 20;
  std::mt19937 random(static_cast<uint32_t>(n));
  FusionBuilder b("wide");
  std::vector<ValueId> values;
  std::vector<bool> is_read(static_cast<size_t>(n) + kInputs);
  for (size_t i = 0; i < kInputs; ++i) values.push_back(b.input(DType::kF32, {4096, 1024}));
  const auto recent = [&] {
    const size_t window = std::min(kWindow, values.size());
    const size_t i = values.size() - 1 - random() % window;
    is_read[i] = true;
    return values[i];
  };
  for (int64_t ops = 0; ops < n; ++ops) {
    const ValueId x = recent();
    if (random() % kOpsPerSum == 0) {
      values.push_back(b.mul(x, b.broadcast_over(b.sum(x, {1}), x, {1})));
      ops += 2;
      continue;
    }
    const ValueId y = recent();
    const std::array kFunctions = {PointwiseFn::kAdd, PointwiseFn::kMul, PointwiseFn::kSub,
                                   PointwiseFn::kMax};
    values.push_back(b.pointwise(kFunctions[random() % kFunctions.size()], {x, y}));
  }
  for (size_t i = kInputs; i < values.size(); ++i) {
    if (!is_read[i]) b.output(values[i]);
  }
  return b.build();
}

/// n ops, every second of them an external call.
Fusion calls(int64_t n) {
  FusionBuilder b("calls");
  ValueId value = b.input(DType::kF32, {64, 32}, "x");
  for (int64_t i = 0; i < n / 2; ++i)
    value = b.external("call", {b.exp(value)}, {{DType::kF32, {64, 32}}})[0];
  b.output(value);
  return b.build();
}

/// n ops: takes by one index, each of a function of the one before it.
Fusion takes(int64_t n) {
  constexpr int64_t kElements = 4096;
  FusionBuilder b("takes");
  ValueId value = b.input(DType::kF32, {kElements}, "x");
  const ValueId index = b.input(DType::kI32, {kElements}, "index");
  for (int64_t i = 0; i < n / 3; ++i)
    value = b.take(b.broadcast(b.exp(value), {8, kElements}, {1}), index, 0);
  b.output(value);
  return b.build();
}

/// Processor time of the thread, in seconds.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Plans graphs. `explain_share`: what explain() takes of that time; `exponent`: of the time, from
/// the size that was planned before to this one; `predicted_us`: what the plan takes.
template <Fusion (*kBuild)(int64_t)>
void plan_built(benchmark::State& state) {
  struct Size {
    double ops = 0.0;
    double seconds = 0.0;
  };
  static Size before;
  const Fusion fusion = kBuild(state.range(0));
  Size size{.ops = static_cast<double>(fusion.ops.size()),
            .seconds = std::numeric_limits<double>::infinity()};
  double explain_seconds = 0.0;
  for ([[maybe_unused]] auto _ : state) {
    const double begin = processor_seconds();
    auto result = plan(fusion, {}, planned_device());
    size.seconds = std::min(size.seconds, processor_seconds() - begin);
    benchmark::DoNotOptimize(result);
    state.PauseTiming();
    state.counters["predicted_us"] = result->predicted_us();
    const double planned = processor_seconds();
    benchmark::DoNotOptimize(explain(*result));
    explain_seconds = processor_seconds() - planned;
    result = fail({});
    state.ResumeTiming();
  }
  state.counters["ops"] = size.ops;
  state.counters["explain_share"] = explain_seconds / size.seconds;
  if (before.ops > 0.0 && before.ops < size.ops)
    state.counters["exponent"] =
        std::log(size.seconds / before.seconds) / std::log(size.ops / before.ops);
  before = size;
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
  const KernelPlan& kernel = planned_chain->kernels.front();
  for ([[maybe_unused]] auto _ : state) {
    auto result = emit(kernel.facts, kernel.chosen().schedule);
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

/// 100, 1,000 and 10,000 ops.
void register_layers(const char* name, void (*run)(benchmark::State&)) {
  benchmark::RegisterBenchmark(name, run)
      ->Arg(1)
      ->Arg(14)
      ->Arg(137)
      ->Unit(benchmark::kMillisecond)
      ->Complexity();
}

/// Graphs of so many ops, or a few times as many.
void register_shape(const char* name, void (*run)(benchmark::State&)) {
  benchmark::RegisterBenchmark(name, run)->Arg(1'000)->Arg(10'000)->Arg(50'000)->Unit(
      benchmark::kMillisecond);
}

}  // namespace

void register_growth() {
  register_layers("growth/plan_layers_alike", plan_layers<true>);
  register_layers("growth/plan_layers_apart", plan_layers<false>);
  // Of 100 to 50,000 ops.
  benchmark::RegisterBenchmark("growth/plan_connected", plan_built<connected>)
      ->Arg(60)
      ->Arg(703)
      ->Arg(7040)
      ->Arg(35200)
      ->Unit(benchmark::kMillisecond);
  register_shape("growth/plan_outputs", plan_built<outputs>);
  register_shape("growth/plan_alternating", plan_built<alternating>);
  register_shape("growth/plan_joined_slices", plan_built<joined_slices>);
  register_shape("growth/plan_joined_halves", plan_built<joined_halves>);
  register_shape("growth/plan_joined_chain", plan_built<joined_chain>);
  register_shape("growth/plan_nested_joins", plan_built<nested_joins>);
  register_shape("growth/plan_wide_16", plan_built<wide<16>>);
  register_shape("growth/plan_wide_64", plan_built<wide<64>>);
  register_shape("growth/plan_calls", plan_built<calls>);
  register_shape("growth/plan_takes", plan_built<takes>);
  register_chain("growth/simplify", simplify_chain);
  register_chain("growth/plan", plan_chain);
  register_chain("growth/emit", emit_chain);
}

}  // namespace sinter::bench
