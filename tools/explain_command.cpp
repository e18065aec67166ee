#include "scheduler/explain.h"

#include <memory>

#include "tools/command.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

Result<Report> explain_command(const ProblemOptions& options) {
  auto problem = load_problem(options);
  if (!problem) return fail(problem.error());
  auto plan = plan_problem(*problem);
  if (!plan) return fail(plan.error());
  return Report{.text = explain(*plan), .json = to_json(*plan)};
}

}  // namespace

Command add_explain(CLI::App& tool) {
  auto options = std::make_shared<ProblemOptions>();
  CLI::App& command = *tool.add_subcommand(
      "explain", "Show what was decided, what was weighed, and what the choice takes");
  add_problem_options(command, *options);
  return [options] { return explain_command(*options); };
}

}  // namespace sinter::tool
