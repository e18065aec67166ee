#include <algorithm>

#include "scheduler/report/plan_diff.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

/// Leaves sizes of extents that only the other problem has to that one.
void drop_foreign_extents(Problem& problem, const Problem& other) {
  std::erase_if(problem.extents, [&](const auto& extent) {
    return !problem.fusion.find_symbol(extent.first).valid() &&
           other.fusion.find_symbol(extent.first).valid();
  });
}

ProblemOptions options_of_b(const DiffArguments& arguments) {
  ProblemOptions out = arguments.problem;
  out.source = arguments.source_b;
  if (!arguments.device_b.empty()) out.device = arguments.device_b;
  if (!arguments.schedule_file_b.empty()) out.schedule_file = arguments.schedule_file_b;
  // What is given for b alone beats what is given for both.
  const auto name_of = [](std::string_view extent) { return extent.substr(0, extent.find('=')); };
  std::erase_if(out.extents, [&](const std::string& extent) {
    return std::ranges::any_of(arguments.extents_b, [&](const std::string& own) {
      return name_of(own) == name_of(extent);
    });
  });
  out.extents.insert(out.extents.end(), arguments.extents_b.begin(), arguments.extents_b.end());
  return out;
}

}  // namespace

Result<Report> diff_command(const DiffArguments& arguments) {
  auto problem_a = load_problem(arguments.problem);
  if (!problem_a) return fail(problem_a.error());
  auto problem_b = load_problem(options_of_b(arguments));
  if (!problem_b) return fail(problem_b.error());
  drop_foreign_extents(*problem_a, *problem_b);
  drop_foreign_extents(*problem_b, *problem_a);
  const auto a = plan_problem(*problem_a);
  if (!a) return fail(a.error());
  const auto b = plan_problem(*problem_b);
  if (!b) return fail(b.error());
  const PlanDiff difference = diff(*a, *b);
  return Report{.text = diff_text(difference, *a, *b),
                .json = to_json(difference, *a, *b),
                .passed = difference.equal()};
}

}  // namespace sinter::tool
