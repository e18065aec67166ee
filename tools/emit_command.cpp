#include "codegen/cuda/emit.h"
#include "codegen/kernel/kernel_printer.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {

Result<Report> emit_command(const EmitArguments& arguments) {
  auto planned = load_planned(arguments.problem);
  if (!planned) return fail(planned.error());
  const Plan* plan = &planned->plan;
  const FamilySet& families = planned->families;
  Report report{.json = {{"form", arguments.form}, {"kernels", Json::array()}}};
  if (plan->kernels.empty()) {
    report.text = fmt::format("// nothing to emit: '{}' needs no kernel, and {} external call(s)\n",
                              plan->fusion.name, plan->externals.size());
    report.json["note"] = "the plan has no kernels";
  }
  for (const KernelPlan& kernel : plan->kernels) {
    const Schedule& schedule = kernel.chosen().schedule;
    auto lowered = lower(kernel.facts, schedule, families);
    if (!lowered) return fail(lowered.error());
    auto source = emit(kernel.facts, schedule, families);
    if (!source) return fail(source.error());
    const std::string text = arguments.form == "cuda" ? source->text : print(lowered->kernel);
    report.text += text;
    report.json["kernels"].push_back({{"entry", source->entry},
                                      {"architecture", architecture_of(plan->limits)},
                                      {"threads", source->threads},
                                      {"shared_bytes", source->shared_bytes},
                                      {"work_per_block", source->work_per_block},
                                      {"cluster_size", source->cluster_size},
                                      {"team_size", source->team_size},
                                      {"cooperative", source->team_size > 1},
                                      {"param_values", source->param_values},
                                      {"text", text}});
  }
  return report;
}

}  // namespace sinter::tool
