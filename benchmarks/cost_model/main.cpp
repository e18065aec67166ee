// Compares the cost model with schedules that were timed: how far its predictions are off, how much
// longer its choice takes than the fastest, what each term is worth, and which constants fit best.
// Needs no device.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "benchmarks/cost_model/ablation.h"
#include "benchmarks/cost_model/accuracy.h"
#include "benchmarks/cost_model/fit.h"
#include "benchmarks/cost_model/untimed.h"
#include "runtime/json/plan_json.h"

namespace sinter::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> lists;
  std::string benchmarks;
  std::string out;
  std::map<std::string, double> given;
  std::vector<std::string> off;
  double least_worth = 0.0;
  std::string device;
  size_t best = 1;
  std::vector<std::tuple<std::string, int64_t, int64_t>> canned;
  bool check = false;
  bool with_held_out = false;
};

/// The problems of a set on a device. Times of another one are left out.
void on_device(TimedSet& set, const std::string& device) {
  const auto limits = find_device(device);
  if (!limits) throw std::runtime_error("there is no device " + device);
  if (limits->name == set.limits.name) return;
  set.limits = *limits;
  for (TimedProblem& problem : set.problems) {
    problem.timed.clear();
    problem.spilled.clear();
  }
}

/// Adds canned fusions at sizes that the set does not have.
void add_canned(TimedSet& set, const Options& options) {
  for (const auto& [fusion, rows, columns] : options.canned) {
    const nlohmann::json key = {{"fusion", fusion}, {"rows", rows}, {"cols", columns}};
    if (std::ranges::find(set.problems, key, &TimedProblem::key) != set.problems.end()) continue;
    auto facts = facts_of_canned(key);
    if (!facts) throw std::runtime_error(fusion + " is no single segment");
    set.problems.push_back(
        {.name = key.dump(), .key = key, .facts = std::move(*facts), .timed = {}});
  }
}

std::vector<TimedSet> sets_of(const Options& options) {
  std::vector<TimedSet> sets;
  for (const std::string& list : options.lists) {
    TimedSet set = read_timed_set(list, options.benchmarks);
    if (!options.device.empty()) on_device(set, options.device);
    for (const auto& [name, value] : options.given) {
      const CostConstantField* field = find_cost_constant(name);
      if (field == nullptr) throw std::runtime_error("there is no constant " + name);
      if (!(value >= field->least && value <= field->most))
        throw std::runtime_error(
            fmt::format("{} is {}, and not from {} to {}", name, value, field->least, field->most));
      field->of(set.limits.cost) = value;
    }
    for (const std::string& name : options.off) {
      const std::vector<CostTerm> terms = cost_terms();
      const auto term = std::ranges::find(terms, name, &CostTerm::name);
      if (term == terms.end()) throw std::runtime_error("there is no term " + name);
      set.limits = without(*term, set.limits);
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

void print_accuracy(const char* what, const TimedSet& set, const DeviceLimits& limits) {
  const auto problems = accuracy_of(set, limits);
  if (problems.empty()) return;
  const Accuracy mean = mean_of(problems);
  size_t schedules = 0;
  for (const ProblemAccuracy& problem : problems) schedules += problem.schedules;
  fmt::print(
      "{}, {}: {} schedules are missed by {:.2f} % in the mean; of {} problems the choice takes "
      "{:.2f} % longer than the fastest, the first choice {:.2f} %\n",
      set.limits.name, what, schedules, mean.error, problems.size(), mean.behind,
      mean.first_behind);
  const auto worst = std::ranges::max_element(problems, {}, &ProblemAccuracy::behind);
  fmt::print("  at worst {:.1f} %: {}\n", 100.0 * std::expm1(worst->behind),
             set.problems[static_cast<size_t>(worst - problems.begin())].name);
}

/// Every schedule with its time and its prediction, term by term.
nlohmann::json predictions_of(const TimedSet& set) {
  nlohmann::json out = nlohmann::json::array();
  for (const TimedProblem& problem : set.problems) {
    for (const TimedSchedule& timed : problem.timed) {
      const Prediction terms = predicted(problem, timed, set.limits);
      out.push_back({{"problem", problem.name},
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
                     {"waves", timed.estimate.waves}});
    }
  }
  return out;
}

int report(const Options& options) {
  for (const TimedSet& set : sets_of(options)) {
    print_accuracy("all", set, set.limits);
    for (const bool held_out : {false, true})
      print_accuracy(held_out ? "held out" : "fitted", part_of(set, held_out), set.limits);
    if (!options.out.empty()) std::ofstream(options.out) << predictions_of(set).dump(1) << "\n";
  }
  return 0;
}

/// The file of the device, with the constants changed that the fit changed.
std::string file_with(const std::string& path, const FitResult& result) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  OrderedJson file = OrderedJson::parse(in);
  for (const FittedConstant& change : result.changes)
    file.at("constants")[place_of(*find_cost_constant(change.name))] = change.after;
  return file.dump(2) + "\n";
}

int fit_all(const Options& options) {
  const std::vector<TimedSet> sets = sets_of(options);
  std::vector<TimedSet> fitted;
  for (const TimedSet& set : sets)
    fitted.push_back(options.with_held_out ? set : part_of(set, false));
  const FitResult result = fit(fitted);
  for (size_t i = 0; i < sets.size(); ++i) {
    DeviceLimits after = sets[i].limits;
    after.cost = result.constants;
    print_accuracy("fitted, before", fitted[i], sets[i].limits);
    print_accuracy("fitted, after", fitted[i], after);
    if (options.with_held_out) continue;
    print_accuracy("held out, before", part_of(sets[i], true), sets[i].limits);
    print_accuracy("held out, after", part_of(sets[i], true), after);
  }
  fmt::print("loss {:.5f} -> {:.5f} by {} predictions\n", result.loss_before, result.loss_after,
             result.predictions);
  for (const FittedConstant& change : result.changes)
    fmt::print("{:44} {:10.4g} -> {:10.4g}\n", change.name, change.before, change.after);
  if (!options.out.empty()) {
    const std::string text = file_with(options.out, result);
    std::ofstream(options.out) << text;
  }
  if (!options.check || result.changes.empty()) return 0;
  fmt::print("the constants are not those that the fit gives\n");
  return 1;
}

/// Names the terms that are worth less than `least_worth` on every card, in error and in both
/// choices.
int ablate_all(const Options& options) {
  nlohmann::json out = nlohmann::json::array();
  std::map<std::string_view, double> worth;
  for (const TimedSet& set : sets_of(options)) {
    print_accuracy("all", set, set.limits);
    fmt::print(
        "| term off | error, % | costs in error | costs in choice | 95 % | in first choice |\n"
        "| --- | --- | --- | --- | --- | --- |\n");
    nlohmann::json terms = nlohmann::json::array();
    for (const TermWorth& term : ablate(set)) {
      fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} to {:.2f} | {:.2f} |\n", term.term,
                 term.without.error, term.error, term.behind, term.low, term.high,
                 term.first_behind);
      terms.push_back({{"term", term.term},
                       {"error", term.without.error},
                       {"behind", term.without.behind},
                       {"costs_in_error", term.error},
                       {"costs_in_choice", term.behind},
                       {"low", term.low},
                       {"high", term.high},
                       {"costs_in_first_choice", term.first_behind}});
      if (!term.must_show) continue;
      const auto [known, is_new] = worth.try_emplace(term.term, term.most());
      if (!is_new) known->second = std::max(known->second, term.most());
    }
    const Accuracy mean = mean_of(accuracy_of(set, set.limits));
    out.push_back({{"device", set.limits.name},
                   {"problems", set.problems.size()},
                   {"error", mean.error},
                   {"behind", mean.behind},
                   {"first_behind", mean.first_behind},
                   {"terms", std::move(terms)}});
  }
  if (!options.out.empty()) std::ofstream(options.out) << out.dump(1) << "\n";
  int status = 0;
  for (const auto& [term, points] : worth) {
    if (points >= options.least_worth) continue;
    fmt::print("'{}' is worth {:.2f} points at most\n", term, points);
    status = 1;
  }
  return status;
}

/// Writes what is to be timed for an ablation, for sweep_suite.py and sinter_gpu_suite.
int list_untimed(const Options& options) {
  nlohmann::json out = {{"suite", nlohmann::json::array()}, {"canned", nlohmann::json::array()}};
  size_t count = 0;
  for (TimedSet& set : sets_of(options)) {
    add_canned(set, options);
    for (const ToTime& item : untimed_choices(set, options.best)) {
      nlohmann::json row = item.problem->key;
      for (const Schedule& schedule : item.schedules) row["schedules"].push_back(print(schedule));
      count += item.schedules.size();
      out[row.contains("kernel") ? "suite" : "canned"].push_back(std::move(row));
    }
  }
  fmt::print("{} schedules of {} problems of the suite and {} canned ones are not timed\n", count,
             out["suite"].size(), out["canned"].size());
  if (!options.out.empty()) std::ofstream(options.out) << out.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace sinter::bench

int main(int argc, char** argv) {
  namespace bench = sinter::bench;
  CLI::App app("Compares the cost model with timed schedules");
  app.require_subcommand(1);
  bench::Options options;
  std::map<CLI::App*, int (*)(const bench::Options&)> commands;
  const auto command = [&](const char* name, const char* what, int (*run)(const bench::Options&)) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->add_option("sets", options.lists,
                    "lists of result files, as in benchmarks/cost_model/sets")
        ->required();
    sub->add_option("--benchmarks", options.benchmarks,
                    "the folder benchmarks/, with graphs and results")
        ->required();
    sub->add_option_function<std::vector<std::pair<std::string, double>>>(
           "--set",
           [&](const std::vector<std::pair<std::string, double>>& pairs) {
             options.given.insert(pairs.begin(), pairs.end());
           },
           "constants to try, as NAME VALUE")
        ->type_name("NAME VALUE");
    sub->add_option("--off", options.off, "terms to switch off in all predictions")
        ->allow_extra_args(false);
    commands[sub] = run;
    return sub;
  };
  command("report", "error of predictions, and how far the choice is behind", bench::report)
      ->add_option("--out", options.out, "where to write each schedule with its prediction, JSON");
  CLI::App* fit = command("fit", "fits one set of constants to all cards", bench::fit_all);
  fit->add_option("--out", options.out, "the file of the device, to be changed in place");
  fit->add_flag("--check", options.check, "fail if the fit changes a constant");
  fit->add_flag("--all", options.with_held_out, "fit to all problems, and hold none out");
  CLI::App* ablate = command("ablate", "what each term is worth", bench::ablate_all);
  ablate->add_option("--out", options.out, "where to write the table, JSON");
  ablate->add_option("--least-worth", options.least_worth,
                     "fail if a term is worth less on every card, in percentage points");
  CLI::App* untimed = command("untimed", "what the choices without a term are and was not timed",
                              bench::list_untimed);
  untimed->add_option("--out", options.out, "where to write the schedules to time, JSON");
  untimed->add_option("--device", options.device, "on which nothing else has been timed");
  untimed->add_option("--canned", options.canned, "fusions to add to the set: NAME ROWS COLS");
  untimed->add_option("--best", options.best, "how many schedules, those ranked first");
  CLI11_PARSE(app, argc, argv);
  try {
    return commands.at(app.get_subcommands().front())(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
