#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "fusion_ir/result.h"

namespace sinter::tool {

/// What a command has to say, in both forms; main prints one of them.
struct Report {
  std::string text{};
  nlohmann::ordered_json json{};
  bool passed = true;  ///< False: the command worked and found something wrong.
};

/// Runs a command whose options have been parsed.
using Command = std::function<Result<Report>()>;

// Each function adds one command to the tool and returns what runs it.
Command add_list(CLI::App& tool);
Command add_plan(CLI::App& tool);
Command add_explain(CLI::App& tool);
Command add_emit(CLI::App& tool);
Command add_check(CLI::App& tool);
Command add_run(CLI::App& tool);
Command add_devices(CLI::App& tool);
Command add_cache(CLI::App& tool);

}  // namespace sinter::tool
