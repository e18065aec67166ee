#include "benchmarks/host_stages.h"

#include <benchmark/benchmark.h>

#include <array>
#include <memory>

#include "fusion_ir/pipeline.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/planning/planner.h"
#include "tests/support/training_layers.h"

namespace sinter::bench {
namespace {

/// What the stages of one fusion start from, computed before anything is timed.
struct Subject {
  Fusion fusion;
  ExtentValues extents;
  Fusion specialized;
  Plan plan;
};

void report_per_op(benchmark::State& state, size_t ops) {
  state.counters["ops"] = static_cast<double>(ops);
  state.counters["per_op"] =
      benchmark::Counter(static_cast<double>(ops), benchmark::Counter::kIsIterationInvariantRate |
                                                       benchmark::Counter::kInvert);
}

template <typename Stage>
void register_stage(const char* stage, const std::string& name,
                    const std::shared_ptr<const Subject>& subject, Stage run) {
  benchmark::RegisterBenchmark(fmt::format("{}/{}", stage, name).c_str(),
                               [subject, run](benchmark::State& state) {
                                 for (auto _ : state) {
                                   auto result = run(*subject);
                                   benchmark::DoNotOptimize(result);
                                 }
                                 report_per_op(state, subject->fusion.ops.size());
                               })
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

const DeviceLimits& planned_device() {
  static const DeviceLimits kDevice = *find_device("H200");
  return kDevice;
}

std::optional<Plan> planned(const CannedFusion& canned) {
  auto result =
      plan(canned.build(), canned.large, planned_device(), {.families = builtin_families()});
  if (!result) return std::nullopt;
  return std::move(*result);
}

void register_stages() {
  for (const CannedFusion& canned : canned_fusions()) {
    auto planned_fusion = planned(canned);
    if (!planned_fusion) continue;
    const Fusion fusion = canned.build();
    const auto binding = bind_extents(fusion, canned.large);
    const auto subject =
        std::make_shared<const Subject>(Subject{.fusion = fusion,
                                                .extents = canned.large,
                                                .specialized = specialize(fusion, *binding),
                                                .plan = std::move(*planned_fusion)});
    register_stage("simplify", canned.name, subject,
                   [](const Subject& s) { return simplify(s.specialized); });
    register_stage("analyse", canned.name, subject,
                   [](const Subject& s) { return analyse(s.plan.fusion); });
    register_stage("plan", canned.name, subject,
                   [](const Subject& s) { return plan(s.fusion, s.extents, planned_device()); });
    register_stage("lower", canned.name, subject, [](const Subject& s) {
      const KernelPlan& kernel = s.plan.kernels.front();
      return lower(kernel.facts, kernel.chosen().schedule);
    });
    register_stage("emit", canned.name, subject, [](const Subject& s) {
      const KernelPlan& kernel = s.plan.kernels.front();
      return emit(kernel.facts, kernel.chosen().schedule);
    });
  }
}

void register_layers() {
  struct Layer {
    const char* name;
    Fusion (*build)();
  };
  static constexpr std::array kLayers = {
      Layer{"llama_forward", [] { return llama_layer_forward(kLlama3With8B); }},
      Layer{"llama_backward", [] { return llama_layer_backward(kLlama3With8B); }},
      Layer{"gpt2_forward", [] { return gpt2_layer_forward(kGpt2); }},
      Layer{"gpt2_backward", [] { return gpt2_layer_backward(kGpt2); }},
      Layer{"bert_forward", [] { return bert_layer_forward(kBertBase); }},
      Layer{"bert_backward", [] { return bert_layer_backward(kBertBase); }}};
  for (const Layer& layer : kLayers) {
    benchmark::RegisterBenchmark(
        fmt::format("plan_layer/{}", layer.name).c_str(),
        [&layer](benchmark::State& state) {
          const Fusion fusion = with_contractions(layer.build());
          const FamilySet families = with_cublaslt(builtin_families());
          double us = 0.0;
          size_t kernels = 0;
          for (auto _ : state) {
            const Plan made =
                plan(fusion, {{"tokens", 8192}}, planned_device(), {.families = families}).value();
            us = made.predicted_us();
            kernels = made.kernels.size();
          }
          report_per_op(state, fusion.ops.size());
          state.counters["kernels"] = static_cast<double>(kernels);
          state.counters["predicted_us"] = us;
        })
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace sinter::bench
