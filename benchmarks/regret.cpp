// Holds the choice of the cost model against schedules that were timed: what it would have chosen
// of them, what was fastest, and how far its predictions are off. Reads files that sinter_gpu_suite
// wrote; needs no device.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "benchmarks/cost_model/timed_choice.h"
#include "benchmarks/cost_model/timed_problems.h"
#include "benchmarks/result_file.h"
#include "codegen/cuda/emit.h"
#include "fusion_ir/error.h"

namespace sinter {
namespace {

struct Case {
  std::string fusion;
  int64_t rows = 0;
  int64_t columns = 0;
  friend auto operator<=>(const Case&, const Case&) = default;
};

std::string describe(const Schedule& schedule) {
  return fmt::format("{} {} x {}{}", schedule.family, schedule.threads_per_row,
                     schedule.rows_per_block, further_numbers(schedule));
}

class Regret {
 public:
  explicit Regret(DeviceLimits limits) : limits_(std::move(limits)) {}

  void add(const nlohmann::json& row) {
    const auto us = row.at("us").get<double>();
    // Nothing wrong was timed, and a few old rows name no schedule.
    if (us <= 0.0 || !row.contains("schedule")) return;
    const Case item{row.at("fusion").get<std::string>(), row.at("rows").get<int64_t>(),
                    row.at("cols").get<int64_t>()};
    const auto schedule = parse_schedule(row.at("schedule").get<std::string>());
    if (!schedule) return skip();
    const Family* family = find_family(families_, schedule->family);
    if (family == nullptr) return skip();
    const auto [facts, is_new] = facts_.try_emplace(item);
    if (is_new) {
      auto whole = bench::facts_of_canned(row);
      SINTER_CHECK(whole.has_value(), "{} cannot be walked", item.fusion);
      facts->second = std::move(*whole);
    }
    const auto estimate = family->estimate(facts->second, *schedule, limits_);
    // What is expected to spill is never offered to pipelines.
    if (!estimate || (family->models_latency && estimate->spilled_registers > 0)) return skip();
    bench::TimedCandidates& timed = cases_[item];
    const auto same = std::ranges::find(timed.candidates, *schedule, &ProposedSchedule::schedule);
    if (same != timed.candidates.end()) {
      double& known = timed.us[static_cast<size_t>(same - timed.candidates.begin())];
      known = std::min(known, us);
      return;
    }
    timed.candidates.push_back(
        {*schedule, *estimate, family->predict(facts->second, *schedule, *estimate, limits_)});
    timed.us.push_back(us);
  }

  /// Prints a table of the cases of which at least so many schedules were timed. False if the
  /// choice takes longer than the fastest by more than these shares.
  [[nodiscard]] bool print(size_t fewest, double most_in_mean, double most) const {
    fmt::print(
        "| gradient | timed | chosen of them, us | fastest, us | regret |\n"
        "| --- | --- | --- | --- | --- |\n");
    double logs = 0.0;
    double worst = 1.0;
    double error = 0.0;
    size_t count = 0;
    size_t schedules = 0;
    for (const auto& [item, timed] : cases_) {
      if (timed.candidates.size() < fewest) continue;
      const auto [chosen, fastest] = bench::choice_of(timed, families_);
      const double ratio = timed.us[chosen] / timed.us[fastest];
      fmt::print("| {} {} x {} | {} | {}: {:.1f} | {}: {:.1f} | {:.1f} % |\n", item.fusion,
                 item.rows, item.columns, timed.us.size(),
                 describe(timed.candidates[chosen].schedule), timed.us[chosen],
                 describe(timed.candidates[fastest].schedule), timed.us[fastest],
                 100.0 * (ratio - 1.0));
      logs += std::log(ratio);
      worst = std::max(worst, ratio);
      for (size_t i = 0; i < timed.us.size(); ++i)
        error += std::abs(std::log(timed.candidates[i].predicted.total_us / timed.us[i]));
      schedules += timed.us.size();
      ++count;
    }
    if (count == 0) return false;
    const double mean = std::expm1(logs / static_cast<double>(count));
    fmt::print(
        "{} cases: {:.2f} % in the geometric mean, {:.1f} % at worst; {} schedules are missed "
        "by {:.1f} % in the mean, {} were left out\n",
        count, 100.0 * mean, 100.0 * (worst - 1.0), schedules,
        100.0 * error / static_cast<double>(schedules), skipped_);
    return mean <= most_in_mean && worst - 1.0 <= most;
  }

 private:
  void skip() { ++skipped_; }

  DeviceLimits limits_;
  FamilySet families_ = builtin_families();
  std::map<Case, SegmentFacts> facts_;
  std::map<Case, bench::TimedCandidates> cases_;
  size_t skipped_ = 0;
};

struct Options {
  std::vector<std::string> paths;
  size_t fewest = 2;
  double most_in_mean = 1.0;
  double most = 1.0;
};

int run(const Options& options) {
  Regret regret(*find_device("H200"));
  for (const std::string& path : options.paths) {
    const nlohmann::json timed = nlohmann::json::parse(bench::read_result(path));
    const auto rows = timed.find("results");
    if (rows == timed.end()) throw std::runtime_error(path + " has no results of sinter_gpu_suite");
    for (const nlohmann::json& row : *rows) regret.add(row);
  }
  return regret.print(options.fewest, options.most_in_mean, options.most) ? 0 : 1;
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  CLI::App app("Holds the model's choice against schedules timed on an H200");
  sinter::Options options;
  app.add_option("results", options.paths, "files that sinter_gpu_suite wrote")->required();
  app.add_option("--fewest", options.fewest, "leave out cases with fewer timed schedules");
  app.add_option("--most-in-mean", options.most_in_mean,
                 "share by which the choice may take longer, in the geometric mean");
  app.add_option("--most", options.most, "the same for each case");
  CLI11_PARSE(app, argc, argv);
  try {
    return sinter::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
