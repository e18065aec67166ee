#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <span>

#include "tools/command.h"

namespace sinter::tool {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kMisused = 2 };

struct NamedCommand {
  const char* name;
  Command (*add)(CLI::App&);
};

constexpr std::array kCommands = {
    NamedCommand{"list", add_list},       NamedCommand{"plan", add_plan},
    NamedCommand{"explain", add_explain}, NamedCommand{"emit", add_emit},
    NamedCommand{"check", add_check},     NamedCommand{"run", add_run},
    NamedCommand{"devices", add_devices}, NamedCommand{"cache", add_cache},
};

void print_json(const nlohmann::ordered_json& json) {
  // File names and logs may hold bytes that are no UTF-8.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

int report_error(const Error& error, bool json) {
  if (json) {
    print_json({{"error", nlohmann::ordered_json::parse(error.json())}});
  } else {
    const std::string text = error.text();  // A log may end its line itself.
    fmt::print(stderr, "sinter: {}{}", text, text.ends_with('\n') ? "" : "\n");
  }
  return kFailed;
}

int report_misuse(const CLI::App& tool, const CLI::ParseError& error, bool json) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return tool.exit(error);
  if (json) {
    print_json({{"error", {{"kind", "Usage"}, {"message", error.what()}}}});
  } else {
    fmt::print(stderr, "sinter: {}\nRun `sinter --help`, or `sinter <command> --help`.\n",
               error.what());
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
  bool json = false;
  tool.add_flag("--json", json, "Print one JSON document, errors included");
  std::array<Command, kCommands.size()> commands;
  for (size_t i = 0; i < kCommands.size(); ++i) commands[i] = kCommands[i].add(tool);

  try {
    tool.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) {
    // Parsing may have stopped before it saw the flag.
    for (const char* argument : arguments) json |= std::strcmp(argument, "--json") == 0;
    return report_misuse(tool, error, json);
  }
  for (size_t i = 0; i < kCommands.size(); ++i) {
    if (!tool.got_subcommand(kCommands[i].name)) continue;
    const Result<Report> report = run(commands[i]);
    if (!report) return report_error(report.error(), json);
    if (json) {
      print_json(report->json);
    } else {
      fmt::print("{}", report->text);
    }
    return report->passed ? kDone : kFailed;
  }
  return kMisused;
}

}  // namespace
}  // namespace sinter::tool

int main(int argc, char** argv) { return sinter::tool::main({argv, static_cast<size_t>(argc)}); }
