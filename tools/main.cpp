#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <span>

#include "fusion_ir/nearest_name.h"
#include "tools/command.h"
#include "tools/standard_error.h"

namespace sinter::tool {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kMisused = 2 };

/// Runs a command whose options have been parsed.
using Command = std::function<Result<Report>()>;

constexpr const char* kSource =
    "A .fir file, - for standard input, or a canned fusion (see `list`)";

/// What a validator says: what is wrong, and behind a line's end the remedy.
std::string refusal(std::string_view message, std::string_view remedy) {
  return fmt::format("{}\n{}", message, remedy);
}

/// Refuses words that are none of `names`, with the nearest one.
CLI::Validator one_of(std::vector<std::string> names) {
  return {[names](const std::string& given) {
            if (std::ranges::find(names, given) != names.end()) return std::string();
            const std::vector<std::string_view> known(names.begin(), names.end());
            return refusal(fmt::format("there is no '{}'", given),
                           suggestion(given, known, fmt::format("use {}", fmt::join(names, ", "))));
          },
          fmt::format("one of {}", fmt::join(names, ", "))};
}

/// Numbers of 64 bits that cannot be negative are read as such: the parser would wrap negative ones
/// and take the largest for those that are larger.
CLI::Validator not_negative() {
  return {[](const std::string& given) {
            if (given.starts_with('-')) {
              return refusal(fmt::format("{} is negative", given),
                             "give zero or a positive number");
            }
            errno = 0;
            (void)std::strtoull(given.c_str(), nullptr, 0);
            return errno == ERANGE
                       ? refusal(fmt::format("{} is too large", given), "give a number below 2^64")
                       : std::string();
          },
          ""};
}

/// Adds the options every planning command has, and the sizes.
void add_planning_options(CLI::App& command, ProblemOptions& options) {
  command.add_option("extents", options.extents, "Sizes, as name=size");
  command
      .add_option("--device", options.device,
                  "Preset to plan for, `live`, or a JSON file (see `devices`)")
      ->capture_default_str();
  command.add_flag("--check-indices", options.check_indices,
                   "Plan kernels that leave the indices of every take, to be checked afterwards");
  command.add_flag("--cublaslt", options.cublaslt,
                   "Also offer the matrix products of cuBLASLt, where they are predicted faster");
  command.add_flag("--no-teams", options.no_teams,
                   "Offer no kernels whose blocks wait for each other through global memory");
  command.add_option("--schedule", options.schedule_file, "Pin all of a schedule: a .sched file")
      ->group("Pins");
  command.add_option("--family", options.family, "Pin the family")->group("Pins");
  command.add_option("--threads-per-row", options.threads_per_row, "Pin a field")->group("Pins");
  command.add_option("--rows-per-block", options.rows_per_block, "Pin a field")->group("Pins");
  command.add_option("--vector-width", options.vector_width, "Pin a field")->group("Pins");
  command.add_option("--unroll", options.unroll, "Pin a field")->group("Pins");
  command.add_option("--residency", options.residency, "Pin it: register, shared or reload")
      ->group("Pins");
  command
      .add_option("--cut", options.cuts,
                  "Let a value, by its name or as %v3, go through memory; may be repeated")
      ->allow_extra_args(false)
      ->group("Pins");
  command
      .add_option("--join", options.joins,
                  "Let one kernel make values, as q,k,v, with all between them; may be repeated")
      ->allow_extra_args(false)
      ->group("Pins");
}

void add_interruption_options(CLI::App& command, ProblemOptions& options) {
  command.add_option("--budget", options.budget_seconds,
                     "Seconds for planning and compiling; what is planned by then is taken if it "
                     "runs the whole graph. 0: no limit");
  command.add_flag("--progress", options.shows_progress,
                   "Print every step of planning and compiling on standard error");
}

/// For commands that hold no kernel against the graph: what it rounds need not be rounded.
void add_deferral(CLI::App& command, ProblemOptions& options) {
  command.add_flag("--defer-scales", options.defer_scales,
                   "Scale rows behind contractions instead of before, where that is predicted "
                   "faster: scaled rows are not rounded then");
}

/// Adds the positional input too.
enum class SavedPlans : uint8_t { kNo, kYes };

/// With saved plans the fusion may be left out: load_planned() asks for one of both.
void add_problem_options(CLI::App& command, ProblemOptions& options,
                         SavedPlans saved = SavedPlans::kNo) {
  CLI::Option* fusion = command.add_option("fusion", options.source, kSource);
  if (saved == SavedPlans::kYes) {
    command.add_option("--plan", options.plan_file,
                       "Take a plan that `plan --save` wrote, in place of a fusion");
  } else {
    fusion->required();
  }
  add_planning_options(command, options);
  add_interruption_options(command, options);
  command
      .add_option(
          "--like", options.like,
          "Follow the plan of these sizes, as name=size, instead of choosing: what a ranged "
          "executable does for sizes of its range; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--tuned", options.tuned_file,
                     "Use what `sinter tune` measured and kept in this database");
}

// Each function adds one command to the tool and returns what runs it.

Command add_list(CLI::App& tool) {
  tool.add_subcommand("list", "Show the canned fusions that can stand for a .fir file");
  return list_command;
}

Command add_plan(CLI::App& tool) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App& command =
      *tool.add_subcommand("plan", "Choose a schedule and show it with its estimate");
  add_problem_options(command, arguments->problem);
  add_deferral(command, arguments->problem);
  command
      .add_option(
          "--form", arguments->form,
          "text: all; sched: only what --schedule reads; fir: only the simplified graph; "
          "candidates: the schedules that were weighed, the best predicted first; of a graph that "
          "was cut the best few")
      ->check(one_of({"text", "sched", "fir", "candidates"}))
      ->capture_default_str();
  command.add_option("--save", arguments->save_file,
                     "Write the plan into this file, for `emit --plan` and `compile --plan`");
  return [arguments] { return plan_command(*arguments); };
}

Command add_explain(CLI::App& tool) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App& command = *tool.add_subcommand(
      "explain", "Show what was decided, what was weighed, and what the choice takes");
  add_problem_options(command, arguments->problem);
  add_deferral(command, arguments->problem);
  CLI::Option* sweep =
      command
          .add_option("--sweep", arguments->sweeps,
                      "Map the kinds chosen over an extent instead: name=from..to[:step|:xfactor]; "
                      "twice for two extents")
          ->allow_extra_args(false);
  sweep->excludes(command.get_option("--tuned"));  // That is about one size.
  command.add_option("--svg", arguments->svg_file,
                     "Draw the kernels and what passes between them, or the map, into this file; "
                     "-: print only that");
  command.add_option("--dot", arguments->dot_file, "Draw the kernels for Graphviz likewise")
      ->excludes(sweep);
  return [arguments] { return explain_command(*arguments); };
}

Command add_diff(CLI::App& tool) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App& command = *tool.add_subcommand("diff", "Show what differs between two plans");
  command.add_option("a", arguments->problem.source, kSource)->required();
  command.add_option("b", arguments->source_b, "The one to compare with; may be the same")
      ->required();
  add_planning_options(command, arguments->problem);
  add_interruption_options(command, arguments->problem);
  command.add_option("--extent-b", arguments->extents_b, "A size for b alone, as name=size")
      ->allow_extra_args(false);
  command.add_option("--device-b", arguments->device_b, "The device of b, if it is another");
  command.add_option("--schedule-b", arguments->schedule_file_b, "Pin all of b's schedule")
      ->group("Pins");
  return [arguments] { return diff_command(*arguments); };
}

Command add_emit(CLI::App& tool) {
  auto arguments = std::make_shared<EmitArguments>();
  CLI::App& command = *tool.add_subcommand("emit", "Print the kernels");
  add_problem_options(command, arguments->problem, SavedPlans::kYes);
  add_deferral(command, arguments->problem);
  command.add_option("--form", arguments->form, "CUDA C++, or kernel IR")
      ->check(one_of({"cuda", "kir"}))
      ->capture_default_str();
  return [arguments] { return emit_command(*arguments); };
}

Command add_check(CLI::App& tool) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App& command = *tool.add_subcommand(
      "check",
      "Hold the kernel against the oracle: in the interpreter, and on a GPU if there is one");
  add_problem_options(command, arguments->problem);
  command.add_option("--seed", arguments->seed, "Of the random inputs")
      ->check(not_negative())
      ->capture_default_str();
  command
      .add_option(
          "--data", arguments->data,
          "Sample data of one kind, as `infinity in rows`, in place of as many kinds as are "
          "affordable; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--input", arguments->inputs,
                  "Data of an input, by its name or as %v0: x=file.npy; may be repeated. Inputs "
                  "without a file get ordinary data")
      ->allow_extra_args(false);
  command
      .add_option("--output", arguments->outputs,
                  "Write what the interpreter computed as an output: y=file.npy; may be repeated; "
                  "needs --input")
      ->allow_extra_args(false)
      ->needs("--input");
  return [arguments] { return check_command(*arguments); };
}

Command add_run(CLI::App& tool) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App& command =
      *tool.add_subcommand("run", "Check on a GPU, then time beside the copy floor");
  add_problem_options(command, arguments->problem);
  command.add_option("--seed", arguments->seed, "Of the random inputs")
      ->check(not_negative())
      ->capture_default_str();
  command.add_option("--samples", arguments->samples, "Timed runs, at least 15")
      ->capture_default_str();
  return [arguments] { return run_command(*arguments); };
}

Command add_tune(CLI::App& tool) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App& command = *tool.add_subcommand(
      "tune", "Measure the best predicted schedules on a GPU; Ctrl-C keeps the best so far");
  command.add_option("fusion", arguments->problem.source, kSource)->required();
  add_planning_options(command, arguments->problem);
  command.add_option("--budget", arguments->budget_seconds, "Seconds, compilation included")
      ->capture_default_str();
  command
      .add_option("--top", arguments->top, "Candidates of each segment beside the untuned choice")
      ->check(not_negative())
      ->capture_default_str();
  command.add_option("--samples", arguments->samples, "Timed runs of each median, at least 15")
      ->capture_default_str();
  command.add_option("--seed", arguments->seed, "Of the random inputs")
      ->check(not_negative())
      ->capture_default_str();
  command
      .add_option("--launch-limit", arguments->launch_limit_seconds,
                  "Seconds after which a launch counts as hanging")
      ->capture_default_str();
  command.add_option("--database", arguments->database,
                     "Keep the result in this file, for --tuned; made if it is not there");
  return [arguments] { return tune_command(*arguments); };
}

Command add_tuning(CLI::App& tool) {
  auto arguments = std::make_shared<TuningArguments>();
  CLI::App& command = *tool.add_subcommand("tuning", "Look after a database of measured schedules");
  command.add_option("action", arguments->action, "What to do")
      ->required()
      ->check(one_of({"list", "export", "import", "merge", "forget"}));
  command.add_option("database", arguments->database, "The file")->required();
  command.add_option(
      "other", arguments->other,
      "merge: another database; import: a file that export wrote; forget: a fusion's "
      "name, or how a graph's hash begins");
  command.add_flag("--all", arguments->all, "forget: everything");
  return [arguments] { return tuning_command(*arguments); };
}

Command add_compile(CLI::App& tool) {
  auto arguments = std::make_shared<CompileArguments>();
  CLI::App& command = *tool.add_subcommand(
      "compile", "Compile the kernels for the device, which need not be in this machine");
  add_problem_options(command, arguments->problem, SavedPlans::kYes);
  add_deferral(command, arguments->problem);
  command.add_option("--output", arguments->output, "Write the cubins into this folder");
  command.add_option("--threads", arguments->threads, "Kernels compiled at once")
      ->capture_default_str();
  return [arguments] { return compile_command(*arguments); };
}

Command add_devices(CLI::App& tool) {
  auto arguments = std::make_shared<DevicesArguments>();
  CLI::App& command =
      *tool.add_subcommand("devices", "Show the device presets and the devices in this machine");
  command.add_option("device", arguments->device,
                     "Show one; with --json as a file that --device reads");
  command
      .add_flag("--constants", arguments->constants,
                "Show what the cost model multiplies by instead; such a file may change it")
      ->needs("device");
  return [arguments] { return devices_command(*arguments); };
}

Command add_cache(CLI::App& tool) {
  auto arguments = std::make_shared<CacheArguments>();
  CLI::App& command = *tool.add_subcommand("cache", "Look after the kernels kept on disk");
  command.add_option("action", arguments->action, "What to do")
      ->required()
      ->check(one_of({"list", "verify", "clear", "stats"}));
  command.add_option("--directory", arguments->directory,
                     "The cache; otherwise SINTER_CACHE_DIR, otherwise the user's");
  return [arguments] { return cache_command(*arguments); };
}

struct NamedCommand {
  const char* name;
  Command (*add)(CLI::App&);
};

constexpr std::array kCommands = {
    NamedCommand{"list", add_list},       NamedCommand{"plan", add_plan},
    NamedCommand{"explain", add_explain}, NamedCommand{"diff", add_diff},
    NamedCommand{"emit", add_emit},       NamedCommand{"check", add_check},
    NamedCommand{"run", add_run},         NamedCommand{"devices", add_devices},
    NamedCommand{"cache", add_cache},     NamedCommand{"tune", add_tune},
    NamedCommand{"tuning", add_tuning},   NamedCommand{"compile", add_compile},
};

std::string text_of(const nlohmann::ordered_json& json) {
  // File names and logs may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void print_json(const nlohmann::ordered_json& json) { fmt::print("{}", text_of(json)); }

int report_error(const Error& error, bool json) {
  if (json) {
    print_json({{"error", nlohmann::ordered_json::parse(error.json())}});
  } else {
    const std::string text = error.text();  // A log may end its line itself.
    tell(fmt::format("sinter: {}{}", text, text.ends_with('\n') ? "" : "\n"));
  }
  return kFailed;
}

/// Refuses options and words that are given and empty: an empty path or name is none.
void refuse_empty(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& given : option->results()) {
      if (given.empty())
        throw CLI::ValidationError(option->get_name(),
                                   refusal("it is empty", "give it a value, or leave it out"));
    }
  }
}

/// Prints, and says whether all of it was taken: files fill up, and pipes end.
bool print_all(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

/// Every name that a command line may give an option by, with its dashes.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  }
  return out;
}

/// What is wrong with a command line, and what was likely meant.
struct Misuse {
  std::string message;
  std::string remedy;
};

/// Looks for the first word that names no command or option: the parser reports a wrong command as
/// a missing one.
Misuse misuse_of(const CLI::App& tool, const CLI::ParseError& error, std::span<char*> arguments) {
  constexpr std::string_view kHelp = "run `sinter --help`, or `sinter <command> --help`";
  std::vector<std::string_view> commands;
  for (const NamedCommand& command : kCommands) commands.emplace_back(command.name);
  const auto words = arguments.subspan(1);
  std::vector<std::string> options = option_names(tool);
  const auto command =
      std::ranges::find_if(words, [](std::string_view word) { return !word.starts_with("-"); });
  if (command != words.end()) {
    const std::string name = *command;
    if (std::ranges::find(commands, name) == commands.end())
      return {fmt::format("there is no command '{}'", name), suggestion(name, commands, kHelp)};
    std::ranges::move(option_names(*tool.get_subcommand(name)), std::back_inserter(options));
  }
  const std::vector<std::string_view> known(options.begin(), options.end());
  for (const std::string_view word : words) {
    const std::string_view name = word.substr(0, word.find('='));
    if (name.starts_with("--") && std::ranges::find(known, name) == known.end())
      return {fmt::format("there is no option '{}'", name), suggestion(name, known, kHelp)};
  }
  const std::string_view message = error.what();
  const size_t end = message.find('\n');
  if (end == std::string_view::npos) return {std::string(message), std::string(kHelp)};
  return {std::string(message.substr(0, end)), std::string(message.substr(end + 1))};
}

int report_misuse(const CLI::App& tool, const CLI::ParseError& error, std::span<char*> arguments,
                  bool json) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return tool.exit(error);
  const Misuse misuse = misuse_of(tool, error, arguments);
  if (json) {
    print_json(
        {{"error", {{"kind", "Usage"}, {"message", misuse.message}, {"remedy", misuse.remedy}}}});
  } else {
    tell(fmt::format("sinter: {}. Remedy: {}\n", misuse.message, misuse.remedy));
  }
  return kMisused;
}

Result<Report> run(const Command& command) {
  try {
    return command();
  } catch (const SinterException& exception) {
    return fail(exception.error());
  } catch (const std::bad_alloc&) {
    return fail({.kind = ErrorKind::kResourceExhausted,
                 .message = "this machine's memory does not hold the problem",
                 .remedy = "choose smaller extents"});
  } catch (const std::exception& exception) {
    return fail({.kind = ErrorKind::kInternalError,
                 .message = exception.what(),
                 .remedy = "this is a defect in Sinter: please report the command line"});
  }
}

int main(std::span<char*> arguments) {
  CLI::App tool{"Turns fusion graphs into fast CUDA kernels, and shows how.", "sinter"};
  tool.require_subcommand(1);
  tool.fallthrough();
  tool.set_version_flag("--version", "sinter " SINTER_VERSION);
  bool json = false;
  tool.add_flag("--json", json, "Print one JSON document, errors included");
  std::array<Command, kCommands.size()> commands;
  for (size_t i = 0; i < kCommands.size(); ++i) commands[i] = kCommands[i].add(tool);

  try {
    tool.parse(static_cast<int>(arguments.size()), arguments.data());
    for (const CLI::App* command : tool.get_subcommands()) refuse_empty(*command);
  } catch (const CLI::ParseError& error) {
    // Parsing may have stopped before it saw the flag.
    for (const char* argument : arguments) json |= std::strcmp(argument, "--json") == 0;
    return report_misuse(tool, error, arguments, json);
  }
  for (size_t i = 0; i < kCommands.size(); ++i) {
    if (!tool.got_subcommand(kCommands[i].name)) continue;
    const Result<Report> report = run(commands[i]);
    if (!report) return report_error(report.error(), json);
    int code = report->passed ? kDone : kFailed;
    if (!print_all(json ? text_of(report->json) : report->text)) {
      tell(fmt::format("sinter: standard output takes no more: {}\n", std::strerror(errno)));
      code = kFailed;
    }
    if (report->device_hangs) {
      // What runs at a regular end of the process would wait for the device.
      std::fflush(nullptr);
      std::_Exit(code);
    }
    return code;
  }
  return kMisused;
}

}  // namespace
}  // namespace sinter::tool

int main(int argc, char** argv) { return sinter::tool::main({argv, static_cast<size_t>(argc)}); }
