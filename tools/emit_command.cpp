#include <memory>

#include "codegen/kernel_printer.h"
#include "codegen/lower.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

struct Options {
  ProblemOptions problem;
  std::string form = "cuda";
};

Result<Report> emit_command(const Options& options) {
  auto problem = load_problem(options.problem);
  if (!problem) return fail(problem.error());
  auto plan = plan_problem(*problem);
  if (!plan) return fail(plan.error());
  const FamilySet& families = problem->plan_options.families;
  Report report{.json = {{"form", options.form}, {"kernels", Json::array()}}};
  for (const SegmentPlan& segment : plan->segments) {
    const Schedule& schedule = segment.chosen().schedule;
    auto lowered = lower(segment.facts, schedule, families);
    if (!lowered) return fail(lowered.error());
    auto source = emit(segment.facts, schedule, families);
    if (!source) return fail(source.error());
    const std::string text = options.form == "cuda" ? source->text : print(lowered->kernel);
    report.text += text;
    report.json["kernels"].push_back({{"entry", source->entry},
                                      {"architecture", architecture_of(plan->limits)},
                                      {"threads", source->threads},
                                      {"shared_bytes", source->shared_bytes},
                                      {"work_per_block", source->work_per_block},
                                      {"param_values", source->param_values},
                                      {"text", text}});
  }
  return report;
}

}  // namespace

Command add_emit(CLI::App& tool) {
  auto options = std::make_shared<Options>();
  CLI::App& command = *tool.add_subcommand("emit", "Print the kernels");
  add_problem_options(command, options->problem);
  command.add_option("--form", options->form, "CUDA C++, or kernel IR")
      ->check(CLI::IsMember({"cuda", "kir"}))
      ->capture_default_str();
  return [options] { return emit_command(*options); };
}

}  // namespace sinter::tool
