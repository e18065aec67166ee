// Times planned kernels on the current GPU, each checked against the oracle first, beside the copy
// floor and the prediction. With --variants it times further candidates of each plan too, which is
// what the cost model is calibrated on.

#include <fmt/chrono.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <deque>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/check/device_run.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace {

using sinter::fail;

struct Case {
  std::string fusion;
  int64_t rows = 0;
  int64_t columns = 0;
  /// Each is planned for itself; none: those of all cases.
  std::vector<sinter::SchedulePin> pins{};
};

sinter::Result<Case> parse_case(const std::string& text) {
  const size_t first = text.find(':');
  const size_t second = text.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    return fail({.kind = sinter::ErrorKind::kInvalidArgument,
                 .message = fmt::format("the case '{}' is not fusion:rows:columns", text),
                 .remedy = "for example layer_norm:8192:8192"});
  }
  return Case{text.substr(0, first), std::atoll(text.c_str() + first + 1),
              std::atoll(text.c_str() + second + 1)};
}

/// The cases of a file that `sinter_cost_model untimed` wrote, each with the schedules to time.
sinter::Result<std::vector<Case>> read_cases(const std::string& path) try {
  std::ifstream file(path);
  const nlohmann::json listed = nlohmann::json::parse(file);
  std::vector<Case> out;
  for (const auto& row : listed.at("canned")) {
    Case item{.fusion = row.at("fusion"), .rows = row.at("rows"), .columns = row.at("cols")};
    for (const std::string text : row.at("schedules")) {
      auto schedule = sinter::parse_schedule(text);
      if (!schedule) return fail(schedule.error());
      item.pins.push_back({.schedule = std::move(*schedule)});
    }
    out.push_back(std::move(item));
  }
  return out;
} catch (const nlohmann::json::exception& error) {
  return fail({.kind = sinter::ErrorKind::kInvalidArgument,
               .message = fmt::format("{}: {}", path, error.what()),
               .remedy = "`sinter_cost_model untimed --out` writes such files"});
}

/// "family=multi_wave,threads_per_row=256,unroll=2,residency=shared"
sinter::Result<sinter::SchedulePin> parse_pin(const std::string& text) {
  sinter::SchedulePin pin;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    const int64_t number = std::atoll(value.c_str());
    if (key == "family") {
      pin.family = value;
    } else if (key == "threads_per_row") {
      pin.threads_per_row = number;
    } else if (key == "rows_per_block") {
      pin.rows_per_block = number;
    } else if (key == "vector_width") {
      pin.vector_width = number;
    } else if (key == "unroll") {
      pin.unroll = number;
    } else if (key == "residency") {
      pin.residency = value == "shared" ? sinter::Residency::kShared : sinter::Residency::kRegister;
    } else {
      return fail(
          {.kind = sinter::ErrorKind::kInvalidArgument,
           .message = fmt::format("'{}' is no field that can be pinned", key),
           .remedy =
               "pin family, threads_per_row, rows_per_block, vector_width, unroll or residency"});
    }
  }
  return pin;
}

/// One schedule of a case, compiled on a thread of its own.
struct Variant {
  size_t rank = 0;
  std::future<sinter::Result<sinter::CompiledPlan>> compiled;
};

/// A case, with the work that needs no device begun.
struct Prepared {
  Case item;
  std::future<sinter::DeviceReference> reference;
  std::vector<Variant> variants;
};

struct SuiteOptions {
  std::vector<sinter::SchedulePin> pins;  ///< Each is planned for itself; none: one plan, unpinned.
  int variants = 0;
  int top = 1;
};

class Suite {
 public:
  Suite(sinter::DeviceDriver& driver, sinter::DeviceLimits limits, sinter::NvrtcCompiler compiler,
        double copy_rate, SuiteOptions options)
      : driver_(driver),
        limits_(std::move(limits)),
        compiler_(std::move(compiler)),
        cache_({}),
        copy_rate_(copy_rate),
        options_(std::move(options)) {
    if (options_.pins.empty()) options_.pins.emplace_back();
  }

  /// Starts the oracle and the compiler.
  sinter::Result<Prepared> prepare(const Case& item) {
    const sinter::CannedFusion* canned = sinter::find_canned_fusion(item.fusion);
    if (canned == nullptr) {
      return fail({.kind = sinter::ErrorKind::kInvalidArgument,
                   .message = fmt::format("there is no canned fusion '{}'", item.fusion),
                   .remedy = "`sinter list` shows them"});
    }
    const sinter::Fusion fusion = canned->build();
    Prepared out{.item = item, .reference = {}, .variants = {}};
    std::optional<sinter::Binding> binding;
    std::optional<sinter::Error> refused;
    for (const sinter::SchedulePin& pin : item.pins.empty() ? options_.pins : item.pins) {
      const sinter::PlanOptions options{.families = sinter::builtin_families(), .pin = pin};
      auto plan =
          sinter::plan(fusion, {{"rows", item.rows}, {"cols", item.columns}}, limits_, options);
      if (!plan) {
        refused = plan.error();
        continue;
      }
      binding = plan->binding;
      for (const size_t index : chosen_candidates(plan->kernels.front())) {
        sinter::Plan variant = *plan;
        // The first is what an Executable would run, so the compiler may still change the choice.
        auto& candidates = variant.kernels.front().candidates;
        if (index != 0) {
          candidates = {plan->kernels.front().candidates[index]};
          const auto finished = sinter::plan_finish(variant, sinter::KernelId{0},
                                                    candidates.front().schedule, options.families);
          if (!finished) return fail(finished.error());
        }
        out.variants.push_back(
            {index, std::async(std::launch::async, [this, variant = std::move(variant)]() mutable {
               return sinter::compile_plan(std::move(variant), compiler_, cache_, {});
             })});
      }
    }
    if (!binding) return fail(*refused);
    out.reference = std::async(std::launch::async, [fusion, binding = *binding] {
      return sinter::make_reference(fusion, binding);
    });
    return out;
  }

  void run(Prepared prepared) {
    const sinter::DeviceReference reference = prepared.reference.get();
    for (Variant& variant : prepared.variants) {
      auto compiled = variant.compiled.get();
      auto done = compiled ? time_one(prepared.item, reference, std::move(*compiled), variant.rank)
                           : sinter::Result<void>(fail(compiled.error()));
      if (!done) fmt::print(stderr, "{}: {}\n", prepared.item.fusion, done.error().text());
    }
  }

  [[nodiscard]] const nlohmann::json& rows() const { return rows_; }

 private:
  /// The chosen schedule; then, evenly over the ranking of each family and residency, what else was
  /// on offer.
  [[nodiscard]] std::vector<size_t> chosen_candidates(const sinter::KernelPlan& kernel) const {
    std::vector<size_t> out;
    for (size_t i = 0; i < std::min<size_t>(kernel.candidates.size(),
                                            static_cast<size_t>(std::max(options_.top, 1)));
         ++i)
      out.push_back(i);
    std::map<std::string, std::vector<size_t>> kinds;
    for (size_t i = out.size(); i < kernel.candidates.size(); ++i) {
      const auto& schedule = kernel.candidates[i].schedule;
      std::string kind = schedule.family;
      if (!schedule.kept.empty()) kind += sinter::text_of(schedule.kept.front().residency);
      kinds[kind].push_back(i);
    }
    for (const auto& [kind, indices] : kinds) {
      const size_t step =
          std::max<size_t>(1, indices.size() / static_cast<size_t>(std::max(options_.variants, 1)));
      for (size_t i = 0; i < indices.size() && options_.variants > 0 &&
                         i < step * static_cast<size_t>(options_.variants);
           i += step)
        out.push_back(indices[i]);
    }
    return out;
  }

  sinter::Result<void> time_one(const Case& item, const sinter::DeviceReference& reference,
                                sinter::CompiledPlan compiled, size_t index) {
    const sinter::KernelBuild kernel = compiled.kernels.front();
    // Of all kernels; what finishes partial results is in the prediction of what leaves them.
    const double predicted_us = compiled.plan.leading_kernels().size() > 1
                                    ? compiled.plan.predicted_us()
                                    : kernel.chosen.predicted.total_us;
    auto executable = sinter::Executable::prepare(std::move(compiled), driver_);
    if (!executable) return fail(executable.error());
    auto run = sinter::run_on_device(reference, *executable, driver_,
                                     {.timing = {.graph = true}, .copy_bytes_per_us = copy_rate_});
    if (!run) return fail(run.error());
    const auto& chosen = kernel.chosen;
    const auto& schedule = chosen.schedule;
    const sinter::CompiledResources& resources = kernel.kernel->resources;
    const std::string residency =
        schedule.kept.empty() ? "-" : std::string(sinter::text_of(schedule.kept.front().residency));
    fmt::print(
        "{:20} {:6}x{:<6} #{:<3} {:10} {:8} T{:<4} R{:<3} V{:<2} U{:<2} B{:<2} C{:<2} A{:<1} "
        "{:3}r/{:<3}p "
        "{:3}sp {:6}sm {:8.1f} us pred {:8.1f} SOL {:.3f} {}\n",
        item.fusion, item.rows, item.columns, index, schedule.family, residency,
        schedule.threads_per_row, schedule.rows_per_block, schedule.vector_width, schedule.unroll,
        schedule.min_blocks_per_sm, schedule.cluster_size(), schedule.prefetch_rows(),
        resources.registers, chosen.estimate.registers, resources.spill_store_bytes,
        chosen.estimate.shared_bytes, run->timing.median_us, predicted_us, run->speed_of_light(),
        run->check.passed() ? "ok" : "WRONG " + run->check.text());
    std::fflush(stdout);
    const auto& p = chosen.predicted;
    rows_.push_back({{"fusion", item.fusion},
                     {"rows", item.rows},
                     {"cols", item.columns},
                     {"rank", index},
                     {"chosen", index == 0},
                     {"schedule", sinter::print(schedule)},
                     {"family", schedule.family},
                     {"residency", residency},
                     {"registers", resources.registers},
                     {"registers_predicted", chosen.estimate.registers},
                     {"spill_bytes", resources.spill_store_bytes},
                     {"shared_bytes", chosen.estimate.shared_bytes},
                     {"checked", run->check.passed()},
                     {"worst_error_over_bound", run->check.worst_ratio},
                     {"us", run->timing.median_us},
                     {"floor_us", run->floor_us},
                     {"sol", run->speed_of_light()},
                     {"predicted",
                      {{"total_us", predicted_us},
                       {"memory_us", p.memory_us},
                       {"issue_us", p.issue_us},
                       {"special_us", p.special_us},
                       {"shared_us", p.shared_us},
                       {"matrix_us", p.matrix_us},
                       {"l2_us", p.l2_us},
                       {"exposed_us", p.exposed_us},
                       {"second_stage_us", p.second_stage_us},
                       {"waves", chosen.estimate.waves},
                       {"blocks_per_sm", chosen.estimate.blocks_per_sm}}}});
    return {};
  }

  sinter::DeviceDriver& driver_;
  sinter::DeviceLimits limits_;
  sinter::NvrtcCompiler compiler_;
  sinter::KernelCache cache_;
  double copy_rate_;
  SuiteOptions options_;
  nlohmann::json rows_ = nlohmann::json::array();
};

int report(const sinter::Error& error) {
  fmt::print(stderr, "{}\n", error.text());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times planned kernels on the current GPU");
  std::vector<std::string> cases;
  int variants = 0;
  int top = 1;
  std::string json_path;
  std::string cases_path;
  CLI::Option_group* what = app.add_option_group("what to time");
  what->add_option("cases", cases, "fusion:rows:columns ...");
  what->add_option("--schedules", cases_path,
                   "more cases, and what to time of them: from sinter_cost_model untimed")
      ->check(CLI::ExistingFile);
  what->require_option();
  app.add_option("--variants", variants, "further candidates of each kind to time");
  app.add_option("--top", top, "candidates to time, best predicted first");
  app.add_option("--json", json_path, "write results here");
  std::vector<std::string> schedule_paths;
  app.add_option("--schedule", schedule_paths, "a .sched file; each is timed")
      ->check(CLI::ExistingFile)
      ->allow_extra_args(false);
  std::vector<std::string> pin_texts;
  app.add_option("--pin", pin_texts,
                 "fields to pin, for example unroll=2,residency=shared; each --pin is timed")
      ->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);

  SuiteOptions options{.pins = {}, .variants = variants, .top = top};
  for (const std::string& path : schedule_paths) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    auto schedule = sinter::parse_schedule(text);
    if (!schedule) return report(schedule.error());
    options.pins.push_back({.schedule = std::move(*schedule)});
  }
  for (const std::string& text : pin_texts) {
    auto pin = parse_pin(text);
    if (!pin) return report(pin.error());
    options.pins.push_back(std::move(*pin));
  }
  auto driver = sinter::cuda_driver();
  if (!driver) return report(driver.error());
  auto limits = sinter::query_device(**driver, 0);
  if (!limits) return report(limits.error());
  auto compiler = sinter::NvrtcCompiler::open();
  if (!compiler) return report(compiler.error());
  auto context = sinter::DeviceContext::retain(**driver, 0);
  if (!context) return report(context.error());
  auto current = sinter::CurrentContext::enter(**driver, *context);
  if (!current) return report(current.error());
  auto copy_rate = sinter::measure_copy_rate(**driver, 0);
  if (!copy_rate) return report(copy_rate.error());
  fmt::print("{}: device-to-device copy {:.2f} TB/s\n", limits->name, *copy_rate * 1e-6);

  std::vector<Case> items;
  for (const std::string& text : cases) {
    auto item = parse_case(text);
    if (!item) return report(item.error());
    items.push_back(*item);
  }
  if (!cases_path.empty()) {
    auto listed = read_cases(cases_path);
    if (!listed) return report(listed.error());
    std::ranges::move(*listed, std::back_inserter(items));
  }
  const std::string date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  Suite suite(**driver, *limits, std::move(*compiler), *copy_rate, std::move(options));
  // The oracle of the cases to come works while the device runs this one.
  constexpr size_t kPrefetchCases = 3;
  std::deque<sinter::Result<Prepared>> ahead;
  for (size_t next = 0; next < items.size() || !ahead.empty();) {
    while (next < items.size() && ahead.size() <= kPrefetchCases)
      ahead.push_back(suite.prepare(items[next++]));
    auto prepared = std::move(ahead.front());
    ahead.pop_front();
    if (!prepared) {
      fmt::print(stderr, "{}\n", prepared.error().text());
      continue;
    }
    suite.run(std::move(*prepared));
    if (json_path.empty()) continue;
    // Written after every case, so that what ends a long run early loses nothing.
    const nlohmann::json out = {{"device", limits->name},
                                {"copy_tb_per_s", *copy_rate * 1e-6},
                                {"run", {{"date", date}}},
                                {"results", suite.rows()}};
    std::ofstream(json_path) << out.dump(1) << "\n";
  }
  return 0;
}
