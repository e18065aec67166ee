#include "tools/problem.h"
#include "tools/standard_error.h"

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "codegen/cuda/emit.h"
#include "codegen/lower/interruptible_lowering.h"
#include "fusion_ir/nearest_name.h"
#include "fusion_ir/parser.h"
#include "fusion_ir/text_position.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/json/device_limits_json.h"
#include "runtime/json/plan_file.h"
#include "runtime/tuning/tuning_database.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/families/interruption.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace sinter::tool {
namespace {

Error bad_argument(std::string message, std::string remedy) {
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = std::move(remedy)};
}

/// Longer texts are refused: a graph of a million ops has a quarter of it, and devices and pipes
/// may never end.
constexpr size_t kMostTextBytes = size_t{1} << 28;
constexpr size_t kBlockBytes = size_t{1} << 16;

/// Stands for standard input where a file is meant.
constexpr std::string_view kStandardInput = "-";

/// "rows=8192" into the map.
Result<void> add_extent(ExtentValues& extents, std::string_view text) {
  const size_t equals = text.find('=');
  int64_t size = 0;
  const std::string_view digits = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (equals == 0 || digits.empty() || code != std::errc() ||
      end != digits.data() + digits.size()) {
    return fail(bad_argument(fmt::format("'{}' is no extent", text),
                             "write extents as name=size, for instance rows=8192"));
  }
  const auto [given, is_new] = extents.emplace(text.substr(0, equals), size);
  if (!is_new && given->second != size) {
    return fail(
        bad_argument(fmt::format("'{}' contradicts {}={}", text, given->first, given->second),
                     "give every extent once"));
  }
  return {};
}

Result<Residency> find_residency(std::string_view name) {
  for (const Residency residency : {Residency::kRegister, Residency::kShared, Residency::kReload}) {
    if (text_of(residency) == name) return residency;
  }
  constexpr std::array<std::string_view, 3> kNames{"register", "shared", "reload"};
  return fail(bad_argument(fmt::format("there is no residency '{}'", name),
                           suggestion(name, kNames, "use register, shared or reload")));
}

Result<SchedulePin> make_pin(const ProblemOptions& options) {
  SchedulePin pin{.threads_per_row = options.threads_per_row,
                  .rows_per_block = options.rows_per_block,
                  .vector_width = options.vector_width,
                  .unroll = options.unroll};
  if (!options.family.empty()) pin.family = options.family;
  if (!options.residency.empty()) {
    auto residency = find_residency(options.residency);
    if (!residency) return fail(residency.error());
    pin.residency = *residency;
  }
  if (!options.schedule_file.empty()) {
    auto schedule = read_file(options.schedule_file)
                        .and_then([](const std::string& text) { return parse_schedule(text); })
                        .map_error([&](Error error) {
                          return in_file(std::move(error), shown(options.schedule_file));
                        });
    if (!schedule) return fail(schedule.error());
    pin.schedule = std::move(*schedule);
  }
  return pin;
}

/// The end of the user's budget from now on, and what shows the steps until then.
Result<Interruption> make_interruption(const ProblemOptions& options) {
  auto deadline = deadline_in(options.budget_seconds);
  if (!deadline) return fail(deadline.error());
  Interruption out{.deadline = *deadline};
  if (options.shows_progress) {
    out.progress = [](const Progress& step) {
      tell(fmt::format("{} {}: {} of {}\n",
                       step.stage == Progress::Stage::kPlan ? "plan" : "compile", step.steps + 1,
                       step.family, step.segment));
      return true;
    };
  }
  return out;
}

/// "q,k,v" in three.
GroupPin make_join(std::string_view text) {
  GroupPin out;
  while (true) {
    const size_t comma = text.find(',');
    out.values.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

/// Whether a name is that of a file, or of standard input.
bool is_there(const std::string& path) {
  std::error_code unreadable;  // A name may be too long for a file, or lie where none may look.
  return path == kStandardInput || std::filesystem::exists(path, unreadable);
}

struct Source {
  Fusion fusion;
  ExtentValues extents;
};

Result<Source> load_source(const std::string& name, DefaultSize default_size) {
  if (const CannedFusion* canned = find_canned_fusion(name)) {
    return Source{canned->build(),
                  default_size == DefaultSize::kLarge ? canned->large : canned->small};
  }
  if (!is_there(name)) {
    std::vector<std::string_view> names;
    for (const CannedFusion& canned : canned_fusions()) names.push_back(canned.name);
    return fail(bad_argument(fmt::format("'{}' is neither a file nor a canned fusion", name),
                             suggestion(name, names, "see `sinter list` for the canned fusions")));
  }
  return read_file(name)
      .and_then([](const std::string& text) { return parse_fusion(text); })
      .map_error([&](Error error) { return in_file(std::move(error), shown(name)); })
      .map([](Fusion fusion) {
        return Source{std::move(fusion), {}};
      });
}

/// Hands what a database has about the problem to its plan.
Result<void> find_tuned(Problem& problem, const std::string& file) {
  auto database = TuningDatabase::open(file, TuningDatabase::Mode::kRead);
  if (!database) return fail(database.error());
  auto key = key_of(problem);
  if (!key) return fail(key.error());
  auto choices = database->find(*key);
  if (!choices) return fail(choices.error());
  problem.plan_options.tuned = std::make_shared<const TunedChoices>(std::move(*choices));
  return {};
}

/// Lets the problem follow the plan of other sizes of its graph.
Result<void> follow(Problem& problem, const std::vector<std::string>& sizes) {
  ExtentValues extents;
  for (const std::string& extent : sizes) {
    if (auto added = add_extent(extents, extent); !added) return added;
  }
  ExtentValues rest = problem.extents;
  extents.merge(rest);
  auto model = plan(problem.fusion, extents, problem.limits, problem.plan_options);
  if (!model) return fail(model.error());
  problem.plan_options.like = std::make_shared<const Plan>(std::move(*model));
  return {};
}

}  // namespace

Result<Problem> load_problem(const ProblemOptions& options, DefaultSize default_size) {
  auto source = load_source(options.source, default_size);
  if (!source) return fail(source.error());
  ExtentValues extents;
  for (const std::string& extent : options.extents) {
    if (auto added = add_extent(extents, extent); !added) return fail(added.error());
  }
  extents.merge(source->extents);  // What is given beats the canned fusion's defaults.
  auto limits = find_limits(options.device);
  if (!limits) return fail(limits.error());
  auto pin = make_pin(options);
  if (!pin) return fail(pin.error());
  auto interruption = make_interruption(options);
  if (!interruption) return fail(interruption.error());
  FamilySet families = builtin_families();
  if (options.cublaslt) families = with_cublaslt(std::move(families));
  Problem out{
      .fusion = std::move(source->fusion),
      .extents = std::move(extents),
      .limits = std::move(*limits),
      .plan_options = {.families = interruptible_lowering(
                           interruptible(std::move(families), *interruption), *interruption),
                       .pin = std::move(*pin),
                       .check_indices = options.check_indices,
                       .defer_scales = options.defer_scales,
                       .teams = !options.no_teams}};
  for (const std::string& cut : options.cuts) out.plan_options.cuts.push_back({cut});
  for (const std::string& join : options.joins) out.plan_options.joins.push_back(make_join(join));
  if (!options.like.empty()) {
    if (auto followed = follow(out, options.like); !followed) return fail(followed.error());
  }
  if (!options.tuned_file.empty()) {
    if (auto found = find_tuned(out, options.tuned_file); !found) return fail(found.error());
  }
  return out;
}

Result<TuningKey> key_of(const Problem& problem) {
  auto compiler = NvrtcCompiler::open();
  if (!compiler) return fail(compiler.error());
  return tuning_key(problem.fusion, problem.extents, problem.limits, toolkit_identity(*compiler));
}

Result<DeviceLimits> find_limits(const std::string& name) {
  if (name == "live") {
    return cuda_driver().and_then([](DeviceDriver* driver) { return query_device(*driver, 0); });
  }
  if (auto limits = find_device(name)) return *limits;
  if (is_there(name)) {
    return read_file(name)
        .and_then([](const std::string& text) { return device_limits_from_json(text); })
        .map_error([&](Error error) { return in_file(std::move(error), shown(name)); });
  }
  std::vector<std::string_view> names{"live"};
  for (const DeviceLimits& preset : device_presets()) names.push_back(preset.name);
  return fail(bad_argument(
      fmt::format("there is no device '{}'", name),
      suggestion(name, names,
                 "see `sinter devices` for the presets; `live` is the device in this machine, and "
                 "a file of limits is as `sinter devices H200 --json` prints it")));
}

Result<Plan> plan_problem(const Problem& problem) {
  return plan(problem.fusion, problem.extents, problem.limits, problem.plan_options);
}

std::string_view shown(std::string_view path) { return path == kStandardInput ? "<stdin>" : path; }

Result<std::string> read_file(const std::string& path) {
  const bool is_input = path == kStandardInput;
  std::error_code unreadable;
  std::ifstream file;
  if (!is_input) file.open(path, std::ios::binary);
  std::istream& from = is_input ? std::cin : file;
  if (!from || std::filesystem::is_directory(path, unreadable)) {
    return fail(is_input ? bad_argument("standard input was read already", "name one file '-'")
                         : bad_argument(fmt::format("cannot read '{}'", path),
                                        "check that it is a file and readable"));
  }
  std::string text;
  std::vector<char> block(kBlockBytes);
  while (from && text.size() <= kMostTextBytes) {
    from.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<size_t>(from.gcount()));
  }
  if (text.size() <= kMostTextBytes) return text;
  Error error{.kind = ErrorKind::kResourceExhausted,
              .message = fmt::format("'{}' is too long", shown(path)),
              .remedy = "name a file of text",
              .limit = static_cast<int64_t>(kMostTextBytes)};
  return fail(std::move(error));
}

Result<PlannedProblem> load_planned(const ProblemOptions& options) {
  if (options.plan_file.empty() == options.source.empty()) {
    return fail(bad_argument(options.source.empty() ? "there is nothing to plan"
                                                    : "a fusion is given beside a saved plan",
                             "give a fusion, or a saved plan with --plan"));
  }
  if (options.plan_file.empty()) {
    auto problem = load_problem(options);
    if (!problem) return fail(problem.error());
    auto plan = plan_problem(*problem);
    if (!plan) return fail(plan.error());
    return PlannedProblem{std::move(*plan), std::move(problem->plan_options.families)};
  }
  FamilySet families = with_cublaslt(builtin_families());
  auto plan = read_file(options.plan_file)
                  .and_then([&](const std::string& text) { return load_plan(text, families); })
                  .map_error([&](Error error) {
                    // Positions are those of texts within the file.
                    error.message = fmt::format("{}: {}", shown(options.plan_file), error.message);
                    return error;
                  });
  if (!plan) return fail(plan.error());
  return PlannedProblem{std::move(*plan), std::move(families)};
}

Result<void> write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("cannot write '{}'", path),
                 .remedy = "check that its folder exists and is writable"});
  }
  return {};
}

}  // namespace sinter::tool
