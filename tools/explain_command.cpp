#include "scheduler/explain.h"

#include "tools/command.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {

Result<Report> explain_command(const ProblemOptions& options) {
  auto problem = load_problem(options);
  if (!problem) return fail(problem.error());
  auto plan = plan_problem(*problem);
  if (!plan) return fail(plan.error());
  return Report{.text = explain(*plan), .json = to_json(*plan)};
}

}  // namespace sinter::tool
