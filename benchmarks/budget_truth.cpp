// Holds predicted shared bytes and registers against ptxas, over all canned fusions, the device
// presets, the chosen schedule and a few random ones each. Needs NVRTC, no GPU. Prints JSON.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>

#include "tests/support/budget_truth.h"

namespace {

using sinter::BudgetSample;

constexpr double kBinWidth = 0.05;
constexpr int kBins = 20;  // The last one counts everything from 95 % up.

nlohmann::ordered_json summary(const std::vector<const BudgetSample*>& samples) {
  std::vector<double> errors;
  std::vector<int> histogram(kBins);
  int64_t exact = 0;
  int64_t spilling = 0;
  for (const BudgetSample* sample : samples) {
    const double error = sample->register_error();
    errors.push_back(error);
    ++histogram[static_cast<size_t>(std::min(error / kBinWidth, kBins - 1.0))];
    exact += sample->shared_is_exact() ? 1 : 0;
    spilling += sample->kernel->resources.spill_store_bytes > 0 ? 1 : 0;
  }
  return {{"kernels", samples.size()},
          {"shared_bytes_exact", exact},
          {"register_error_median", sinter::quantile(errors, 0.5)},
          {"register_error_p90", sinter::quantile(errors, 0.9)},
          {"register_error_histogram", histogram},
          {"spilling", spilling}};
}

template <class Key>
nlohmann::ordered_json grouped(const std::vector<BudgetSample>& samples, Key key) {
  std::map<std::string, std::vector<const BudgetSample*>> groups;
  for (const BudgetSample& sample : samples) groups[key(sample)].push_back(&sample);
  nlohmann::ordered_json out;
  for (const auto& [name, group] : groups) out[name] = summary(group);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Predicted shared bytes and registers against ptxas"};
  sinter::BudgetPopulation population;
  app.add_option("--random", population.random_schedules, "random schedules per fusion and device");
  app.add_option("--device", population.devices, "device presets (all)");
  app.add_option("--threads", population.threads, "threads that compile");
  CLI11_PARSE(app, argc, argv);
  if (population.devices.empty()) {
    for (const sinter::DeviceLimits& limits : sinter::device_presets())
      population.devices.push_back(limits.name);
  }
  const auto canned = sinter::canned_fusions();
  population.fusions.assign(canned.begin(), canned.end());

  const auto compiler = sinter::NvrtcCompiler::open();
  if (!compiler) {
    fmt::print(stderr, "{}\n", compiler.error().text());
    return 1;
  }
  sinter::KernelCache cache({});
  const auto samples = sinter::measure_budgets(population, *compiler, cache);
  if (!samples) {
    fmt::print(stderr, "{}\n", samples.error().text());
    return 1;
  }
  nlohmann::ordered_json report;
  report["nvrtc"] = fmt::format("{}.{}", compiler->version_major(), compiler->version_minor());
  report["histogram_bin_width"] = kBinWidth;
  report["population"] =
      grouped(*samples, [](const BudgetSample& s) { return s.chosen ? "chosen" : "random"; });
  std::vector<BudgetSample> random;
  std::ranges::copy_if(*samples, std::back_inserter(random),
                       [](const BudgetSample& s) { return !s.chosen; });
  report["random_by_device"] = grouped(random, [](const BudgetSample& s) { return s.device; });
  report["random_by_family"] =
      grouped(random, [](const BudgetSample& s) { return s.schedule.family; });
  fmt::print("{}\n", report.dump(2));
  return 0;
}
