// Fits the constants of blocks that pass (NonPersistentGrid) to timed schedules of the suite by
// least squares, and reports how far predictions are off before and after, of the problems fitted
// to and of those held out. Needs no device.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>

#include "benchmarks/result_file.h"
#include "fusion_ir/error.h"
#include "fusion_ir/parser.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/row_resources.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/schedule/two_pass.h"

namespace sinter {
namespace {

/// Of four problems one is held out.
constexpr size_t kHeldOutOf = 4;

/// A constant that is fitted, within what it can mean.
struct Parameter {
  const char* name;
  std::function<double&(NonPersistentGrid&)> of;
  double least;
  double most;
};

std::vector<Parameter> parameters() {
  const auto own = [](const char* name, double NonPersistentGrid::*member, double least,
                      double most) {
    return Parameter{name, [member](NonPersistentGrid& c) -> double& { return c.*member; }, least,
                     most};
  };
  return {own("clocks_per_instruction", &NonPersistentGrid::clocks_per_instruction, 0.5, 8.0),
          own("overlap", &NonPersistentGrid::overlap, 0.02, 4.0),
          own("overlap_growth", &NonPersistentGrid::overlap_growth, 0.05, 2.0),
          own("most_overlap", &NonPersistentGrid::most_overlap, 1.0, 8.0),
          own("last_share", &NonPersistentGrid::last_share, 0.02, 3.0),
          own("busy_warps", &NonPersistentGrid::busy_warps, 2.0, 80.0),
          own("warps_exponent", &NonPersistentGrid::warps_exponent, 0.05, 1.5),
          own("alternation_share", &NonPersistentGrid::alternation_share, 0.01, 1.0),
          own("draining_ns_per_byte", &NonPersistentGrid::draining_ns_per_byte, 0.0001, 0.05),
          own("cluster_gather_ns", &NonPersistentGrid::cluster_gather_ns, 20.0, 2000.0),
          own("lone_overlap", &NonPersistentGrid::lone_overlap, 0.01, 2.0),
          own("row_doubling_share", &NonPersistentGrid::row_doubling_share, 0.001, 0.1),
          own("missed_reads_share", &NonPersistentGrid::missed_reads_share, 0.001, 0.5),
          own("idle_latency_share", &NonPersistentGrid::idle_latency_share, 0.05, 2.0),
          {"warps_doubling_ns",
           [](NonPersistentGrid& c) -> double& { return c.row.warps_doubling_ns; }, 1.0, 400.0},
          own("waiting_compute_share", &NonPersistentGrid::waiting_compute_share, 0.01, 4.0)};
}

/// A schedule that was timed, as the model sees it.
struct Timed {
  Schedule schedule;
  StageList stages;
  ResourceEstimate estimate;
  double us = 0.0;
};

/// One kernel of the suite at one size.
struct Problem {
  SegmentFacts facts;
  std::vector<Timed> timed;
};

class Refit {
 public:
  Refit(std::string suite, DeviceLimits limits)
      : suite_(std::move(suite)), limits_(std::move(limits)) {
    const auto listed = nlohmann::json::parse(bench::read_result(suite_ + "/suite.json"));
    for (const char* group : {"kernels", "quantisation"}) {
      for (const auto& kernel : listed.at(group))
        extents_[kernel.at("name")] = kernel.at("extents").get<std::vector<std::string>>();
    }
  }

  /// Takes what one kernel of blocks that pass was timed with on that date, if nothing spilled.
  void add(const nlohmann::json& row, const std::string& date) {
    if (row.at("spill_bytes").get<int64_t>() != 0) return;
    auto schedule = parse_schedule(row.at("schedules").front().get<std::string>());
    SINTER_CHECK(schedule.has_value(), "a schedule does not parse: {}", schedule.error().text());
    if (schedule->family != "multi_wave" && schedule->family != "looped") return;
    Problem* problem = problem_of(row);
    if (problem == nullptr || !is_non_persistent(problem->facts, *schedule)) return;
    // A loss in a kernel of its rows and one of its mean: the first is another graph's.
    if (problem->facts.has_outer() && schedule->persistent_blocks == 0) return;
    // What they took before their ends were loaded beside the rest of them says nothing now.
    const bool is_outdated = date < "2026-11-25" && schedule->row_access == RowAccess::kUnaligned &&
                             std::ranges::any_of(schedule->kept, [](const KeptValue& x) {
                               return x.residency == Residency::kShared;
                             });
    if (is_outdated) return;
    StageList stages = stages_of(problem->facts, *schedule);
    const ResourceEstimate estimate =
        estimate_row_resources(problem->facts, *schedule, stages, limits_);
    problem->timed.push_back({std::move(*schedule), std::move(stages), estimate, row.at("us")});
  }

  void report(const char* when, const NonPersistentGrid& constants) const {
    for (const bool held_out : {false, true}) {
      double error = 0.0;
      double regret = 0.0;
      size_t schedules = 0;
      size_t problems = 0;
      for_each(held_out, [&](const Problem& problem) {
        const Timed* chosen = nullptr;
        const Timed* fastest = nullptr;
        double chosen_us = 0.0;
        for (const Timed& timed : problem.timed) {
          const double us = predicted_us(problem, timed, constants);
          error += std::abs(std::log(timed.us / us));
          ++schedules;
          if (chosen == nullptr || us < chosen_us) {
            chosen = &timed;
            chosen_us = us;
          }
          if (fastest == nullptr || timed.us < fastest->us) fastest = &timed;
        }
        regret += std::log(chosen->us / fastest->us);
        ++problems;
      });
      fmt::print(
          "{:6} {:8} {:5} schedules off by {:4.1f} % in the mean; of {:3} problems the choice "
          "takes "
          "{:4.1f} % longer than the fastest\n",
          when, held_out ? "held out" : "fitted", schedules,
          100.0 * std::expm1(error / static_cast<double>(std::max<size_t>(schedules, 1))), problems,
          100.0 * std::expm1(regret / static_cast<double>(std::max<size_t>(problems, 1))));
    }
  }

  /// Every schedule with what it took and what it is predicted to take, term by term.
  [[nodiscard]] nlohmann::json errors(const NonPersistentGrid& constants) const {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [key, problem] : problems_) {
      if (!problem) continue;
      const auto& [kernel, type, shape] = key;
      for (const Timed& timed : problem->timed) {
        const Prediction terms = predicted(*problem, timed, constants);
        out.push_back({{"kernel", kernel},
                       {"type", type},
                       {"shape", shape},
                       {"schedule", print(timed.schedule)},
                       {"us", timed.us},
                       {"predicted_us", terms.total_us},
                       {"launch_us", terms.launch_us},
                       {"memory_us", terms.memory_us},
                       {"l2_us", terms.l2_us},
                       {"issue_us", terms.issue_us},
                       {"special_us", terms.special_us},
                       {"shared_us", terms.shared_us},
                       {"exposed_us", terms.exposed_us},
                       {"block_latency_us", terms.block_latency_us},
                       {"blocks_per_sm", timed.estimate.blocks_per_sm},
                       {"registers", timed.estimate.registers},
                       {"register_cap", timed.estimate.register_cap},
                       {"waves", timed.estimate.waves},
                       {"bytes_in_flight_per_sm", timed.estimate.bytes_in_flight_per_sm}});
      }
    }
    return out;
  }

  /// Coordinate descent on loss().
  [[nodiscard]] NonPersistentGrid fit(NonPersistentGrid constants) const {
    constexpr double kFirstStep = 0.5;
    constexpr double kLastStep = 0.01;
    constexpr double kShrink = 0.7;
    const std::vector<Parameter> all = parameters();
    double best = loss(constants);
    for (double step = kFirstStep; step > kLastStep;) {
      bool improved = false;
      for (const Parameter& parameter : all) {
        for (const double factor : {1.0 + step, 1.0 / (1.0 + step)}) {
          NonPersistentGrid tried = constants;
          double& value = parameter.of(tried);
          value = std::clamp(value * factor, parameter.least, parameter.most);
          if (const double now = loss(tried); now < best) {
            best = now;
            constants = tried;
            improved = true;
          }
        }
      }
      if (!improved) step *= kShrink;
    }
    return constants;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::vector<int64_t>>;

  Problem* problem_of(const nlohmann::json& row) {
    const Key key{row.at("kernel"), row.at("type"), row.at("shape")};
    const auto [known, is_new] = problems_.try_emplace(key);
    if (!is_new) return known->second ? &*known->second : nullptr;
    const auto& [kernel, type, shape] = key;
    std::string text = bench::read_result(suite_ + "/" + kernel + ".fir");
    for (size_t at = 0; type == "f32" && (at = text.find("bf16", at)) != std::string::npos;)
      text.replace(at, 4, "f32");
    const auto fusion = parse_fusion(text);
    SINTER_CHECK(fusion.has_value(), "{}: {}", kernel, fusion.error().text());
    ExtentValues values;
    for (size_t i = 0; i < shape.size(); ++i) values[extents_.at(kernel).at(i)] = shape[i];
    // The batches of policy optimisation lie apart by a position more.
    if (shape.size() < extents_.at(kernel).size())
      values[extents_.at(kernel).back()] = (shape[1] + 1) * shape[2];
    auto planned = plan(*fusion, values, limits_);
    SINTER_CHECK(planned.has_value(), "{}: {}", kernel, planned.error().text());
    KernelPlan& first = planned->kernels.front();
    const bool is_whole =
        first.in_plan.empty() &&
        std::ranges::all_of(planned->kernels | std::views::drop(1), &KernelPlan::finishes);
    if (!is_whole) return nullptr;
    known->second = Problem{.facts = std::move(first.facts), .timed = {}};
    return &*known->second;
  }

  void for_each(bool held_out, const std::function<void(const Problem&)>& visit) const {
    size_t number = 0;
    for (const auto& [key, problem] : problems_) {
      if (!problem || problem->timed.empty()) continue;
      if ((number++ % kHeldOutOf == 0) == held_out) visit(*problem);
    }
  }

  [[nodiscard]] Prediction predicted(const Problem& problem, const Timed& timed,
                                     const NonPersistentGrid& non_persistent) const {
    CostConstants constants;
    constants.non_persistent = non_persistent;
    const WorkEstimate work = estimate_row_work(problem.facts, timed.schedule, timed.stages,
                                                timed.estimate, limits_, constants);
    return predict(work, timed.estimate, limits_, constants);
  }

  [[nodiscard]] double predicted_us(const Problem& problem, const Timed& timed,
                                    const NonPersistentGrid& non_persistent) const {
    return predicted(problem, timed, non_persistent).total_us;
  }

  /// Squares of the logarithms of measured over predicted, of a problem's schedules less their
  /// mean, whose square counts for itself, and what the choice costs: were predictions off by
  /// kNear, of schedules that are predicted alike any would be chosen.
  [[nodiscard]] double loss(const NonPersistentGrid& constants) const {
    constexpr double kNear = 0.02;
    constexpr double kChoiceWeight = 5.0;  // Held-out choices gain up to here, and errors grow on.
    double sum = 0.0;
    for_each(false, [&](const Problem& problem) {
      std::vector<double> predicted;
      double mean = 0.0;
      double least = std::numeric_limits<double>::infinity();
      double fastest = std::numeric_limits<double>::infinity();
      for (const Timed& timed : problem.timed) {
        predicted.push_back(std::log(predicted_us(problem, timed, constants)));
        mean += (std::log(timed.us) - predicted.back()) / static_cast<double>(problem.timed.size());
        least = std::min(least, predicted.back());
        fastest = std::min(fastest, timed.us);
      }
      double chances = 0.0;
      double regret = 0.0;
      for (size_t i = 0; i < predicted.size(); ++i) {
        const double us = problem.timed[i].us;
        const double error = std::log(us) - predicted[i];
        sum += (error - mean) * (error - mean) + mean * mean;
        const double chance = std::exp((least - predicted[i]) / kNear);
        chances += chance;
        regret += chance * std::log(us / fastest);
      }
      sum += kChoiceWeight * regret / chances;
    });
    return sum;
  }

  std::string suite_;
  DeviceLimits limits_;
  std::map<std::string, std::vector<std::string>> extents_;  ///< Of each kernel.
  std::map<Key, std::optional<Problem>> problems_;           ///< Nothing: several kernels run it.
};

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  CLI::App app("Fits constants of the cost model to timed schedules");
  std::vector<std::string> files;
  std::string suite;
  std::string device = "H200";
  app.add_option("files", files,
                 "timed schedules of the suite, as in results/*_suite_schedules.json")
      ->required();
  app.add_option("--suite", suite, "the folder of suite.json")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", device, "the preset of the device they were timed on");
  std::string errors;
  app.add_option("--errors", errors, "where to write, as JSON, each schedule with its prediction");
  std::map<std::string, double> given;
  app.add_option_function<std::vector<std::pair<std::string, double>>>(
         "--set",
         [&](const std::vector<std::pair<std::string, double>>& pairs) {
           given.insert(pairs.begin(), pairs.end());
         },
         "constants to try, as NAME VALUE; none is fitted then")
      ->type_name("NAME VALUE");
  CLI11_PARSE(app, argc, argv);
  const auto limits = sinter::find_device(device);
  if (!limits) {
    fmt::print(stderr, "there is no preset '{}': `sinter devices` lists them\n", device);
    return 1;
  }
  try {
    sinter::Refit refit(suite, *limits);
    for (const std::string& path : files) {
      const auto timed = nlohmann::json::parse(sinter::bench::read_result(path));
      const std::string date = timed.at("run").at("date");
      for (const auto& row : timed.at("results")) refit.add(row, date);
    }
    sinter::NonPersistentGrid before;
    for (const auto& [name, value] : given) {
      auto parameters = sinter::parameters();
      const auto found = std::ranges::find(parameters, name, &sinter::Parameter::name);
      if (found == parameters.end())
        throw std::runtime_error(fmt::format("there is no constant '{}' to be fitted", name));
      found->of(before) = value;
    }
    if (!errors.empty()) std::ofstream(errors) << refit.errors(before).dump(1) << "\n";
    refit.report(given.empty() ? "before" : "with those given", before);
    if (!given.empty()) return 0;
    sinter::NonPersistentGrid after = refit.fit(before);
    refit.report("after", after);
    sinter::NonPersistentGrid old = before;
    for (const sinter::Parameter& parameter : sinter::parameters())
      fmt::print("{:24} {:8.3f} -> {:8.3f}\n", parameter.name, parameter.of(old),
                 parameter.of(after));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
