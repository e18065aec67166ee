#include "tests/support/budget_truth.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "runtime/compile/compile_kernel.h"
#include "scheduler/families/random_scheduler.h"
#include "scheduler/planning/planner.h"

namespace sinter {
namespace {

/// All samples of one fusion on one device.
Result<std::vector<BudgetSample>> measure(const CannedFusion& canned, const std::string& device,
                                          const BudgetPopulation& population,
                                          const NvrtcCompiler& compiler, KernelCache& cache) {
  const DeviceLimits limits = find_device(device).value();
  const FamilySet families = builtin_families();
  const auto planned = plan(canned.build(), canned.large, limits, {.families = families});
  if (!planned && planned.error().kind == ErrorKind::kUnsupported)
    return std::vector<BudgetSample>{};
  if (!planned) return fail(planned.error());
  const KernelPlan& kernel = planned->kernels.front();

  std::vector<BudgetSample> samples;
  const auto add = [&](const ProposedSchedule& proposed, bool chosen) -> Result<void> {
    auto source = emit(kernel.facts, proposed.schedule, families);
    if (!source) return fail(source.error());
    auto compiled = compile_kernel(compiler, cache, *source,
                                   Architecture::parse(architecture_of(limits)).value());
    if (!compiled) return fail(compiled.error());
    samples.push_back({.fusion = canned.name,
                       .device = device,
                       .chosen = chosen,
                       .schedule = proposed.schedule,
                       .predicted = proposed.estimate,
                       .source = std::move(*source),
                       .kernel = compiled->kernel});
    return {};
  };
  if (population.chosen) {
    if (auto added = add(kernel.chosen(), true); !added) return fail(added.error());
  }
  for (int i = 0; i < population.random_schedules; ++i) {
    const auto drawn = random_schedule(kernel.facts, limits, families, static_cast<uint64_t>(i));
    if (!drawn) continue;
    if (auto added = add(*drawn, false); !added) return fail(added.error());
  }
  return samples;
}

}  // namespace

int64_t BudgetSample::predicted_registers() const {
  return std::min(predicted.registers, predicted.register_cap);
}

double BudgetSample::register_error() const {
  const auto compiled = static_cast<double>(kernel->resources.registers);
  return std::abs(static_cast<double>(predicted_registers()) - compiled) / compiled;
}

int64_t BudgetSample::shared_bytes() const {
  constexpr int64_t kUnit =
      16;  // Of the layout; ptxas drops what no one reads behind the last byte.
  const int64_t fixed = (kernel->resources.shared_bytes + kUnit - 1) / kUnit * kUnit;
  return source.dynamic_shared ? source.shared_bytes : fixed;
}

Result<std::vector<BudgetSample>> measure_budgets(const BudgetPopulation& population,
                                                  const NvrtcCompiler& compiler,
                                                  KernelCache& cache) {
  const size_t jobs = population.fusions.size() * population.devices.size();
  std::vector<Result<std::vector<BudgetSample>>> done(jobs);
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < population.threads; ++i) {
      threads.emplace_back([&] {
        for (size_t job = next++; job < jobs; job = next++) {
          done[job] = measure(population.fusions[job / population.devices.size()],
                              population.devices[job % population.devices.size()], population,
                              compiler, cache);
        }
      });
    }
  }
  std::vector<BudgetSample> samples;
  for (auto& part : done) {
    if (!part) return fail(part.error());
    std::ranges::move(*part, std::back_inserter(samples));
  }
  return samples;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const double position = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double part = position - static_cast<double>(below);
  return values[below] * (1.0 - part) + values[above] * part;
}

}  // namespace sinter
