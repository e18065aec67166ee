#include "fusion_ir/printer.h"
#include "runtime/json/plan_file.h"
#include "scheduler/report/text_table.h"
#include "tools/command.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

std::string schedules_text(const Plan& plan) {
  std::string out;
  for (const KernelPlan& kernel : plan.kernels) out += print(kernel.chosen().schedule);
  return out;
}

std::string estimate_text(const KernelPlan& kernel) {
  const ResourceEstimate& estimate = kernel.chosen().estimate;
  const Prediction& predicted = kernel.chosen().predicted;
  return fmt::format(
      "estimate: {} registers per thread, {} shared per block, {} threads per block, {} block(s) "
      "per SM, {} blocks ({:.2f} waves)\n"
      "predicted: {:.1f} us; reads {}, writes {}\n",
      estimate.registers, bytes_text(static_cast<double>(estimate.shared_bytes)), estimate.threads,
      estimate.blocks_per_sm, estimate.blocks, estimate.waves, predicted.total_us,
      bytes_text(static_cast<double>(kernel.facts.bytes_read)),
      bytes_text(static_cast<double>(kernel.facts.bytes_written)));
}

/// All legal schedules of each segment, as text and in place of their number in the JSON.
std::string list_candidates(const Plan& plan, Json& segments) {
  std::string out;
  for (const KernelId kernel : plan.kernels.ids()) {
    Json listed = Json::array();
    for (const ProposedSchedule& candidate : plan.kernels[kernel].candidates) {
      out += fmt::format("; predicted {:.1f} us\n{}", candidate.predicted.total_us,
                         print(candidate.schedule));
      listed.push_back(to_json(candidate));
    }
    segments[kernel.index]["candidates"] = std::move(listed);
  }
  return out;
}

}  // namespace

Result<Report> plan_command(const PlanArguments& arguments) {
  auto problem = load_problem(arguments.problem);
  if (!problem) return fail(problem.error());
  auto plan = plan_problem(*problem);
  if (!plan) return fail(plan.error());
  Report report{.json = to_json(*plan)};
  report.json["fir"] = print(plan->fusion);
  if (arguments.form == "sched") {
    report.text = schedules_text(*plan);
  } else if (arguments.form == "fir") {
    report.text = print(plan->fusion);
  } else if (arguments.form == "candidates") {
    report.text = list_candidates(*plan, report.json["kernels"]);
  } else {
    report.text = fmt::format("; as planned for {}\n{}\n{}", plan->limits.name, print(plan->fusion),
                              schedules_text(*plan));
    for (const KernelPlan& kernel : plan->kernels) report.text += estimate_text(kernel);
  }
  if (arguments.save_file.empty()) return report;
  if (auto written = write_file(arguments.save_file, save_plan(*plan)); !written)
    return fail(written.error());
  report.json["saved"] = arguments.save_file;
  return report;
}

}  // namespace sinter::tool
