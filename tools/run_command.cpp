#include "runtime/check/device_run.h"
#include "scheduler/report/text_table.h"
#include "tools/command.h"
#include "tools/device_session.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

std::string origin_text(KernelOrigin origin, double compile_ms) {
  switch (origin) {
    case KernelOrigin::kMemory:
      return "kernel from memory";
    case KernelOrigin::kDisk:
      return "kernel from the disk cache";
    case KernelOrigin::kCompiled:
      return fmt::format("kernel compiled in {:.0f} ms", compile_ms);
    case KernelOrigin::kLibrary:
      unreachable();
  }
  unreachable();
}

std::string check_text(const DeviceCheck& check) {
  std::string out = fmt::format("checked {} elements against the oracle", check.elements);
  if (check.slices_evaluated < check.slices) {
    out +=
        fmt::format(" (inputs repeat every {} of {} slices)", check.slices_evaluated, check.slices);
  }
  return out + fmt::format(": {}, worst error {:.3g} of its bound\n{}",
                           check.passed() ? "passed" : "FAILED, so nothing is timed",
                           check.worst_ratio, check.text());
}

std::string kernel_text(const KernelBuild& kernel) {
  if (kernel.library != nullptr)
    return fmt::format("{}: {}\n", kernel.library->name(), text_of(*kernel.source.call));
  const CompiledResources& resources = kernel.kernel->resources;
  return fmt::format("{}{}: {} registers, {} B spilled, {} shared\n", print(kernel.chosen.schedule),
                     origin_text(kernel.origin, kernel.kernel->compile_ms), resources.registers,
                     resources.spill_store_bytes,
                     bytes_text(static_cast<double>(kernel.source.shared_bytes)));
}

Report make_report(const CompiledPlan& compiled, const DeviceRun& run) {
  const KernelBuild& first = compiled.kernels.front();
  const double predicted = plan_as_compiled(compiled).predicted_us();
  Report report{.passed = run.check.passed()};
  report.text = fmt::format("{} on {}\n", compiled.plan.fusion.name, compiled.plan.limits.name);
  for (const KernelBuild& kernel : compiled.kernels) report.text += kernel_text(kernel);
  report.text += check_text(run.check);
  report.json = {{"fusion", compiled.plan.fusion.name},
                 {"device", compiled.plan.limits.name},
                 {"kernels", compiled.kernels.size()},
                 {"schedule", to_json(first.chosen.schedule)},
                 {"estimate", to_json(first.chosen.estimate)},
                 {"compiled", to_json(first.kernel->resources)},
                 {"check",
                  {{"passed", run.check.passed()},
                   {"elements", run.check.elements},
                   {"slices_evaluated", run.check.slices_evaluated},
                   {"slices", run.check.slices},
                   {"worst_error_over_bound", run.check.worst_ratio},
                   {"mismatches", to_json_list(run.check.mismatches)}}}};
  if (!report.passed) return report;
  report.text += fmt::format(
      "{:.1f} us, cold L2, median of {}; predicted {:.1f} us in {} kernel(s)\n"
      "{} moved at least; copy floor {:.1f} us at {:.0f} GB/s measured: SOL {:.3f}\n",
      run.timing.median_us, run.timing.samples_us.size(), predicted, compiled.kernels.size(),
      bytes_text(static_cast<double>(run.minimum_bytes)), run.floor_us, run.copy_bytes_per_us / 1e3,
      run.speed_of_light());
  report.json["median_us"] = run.timing.median_us;
  report.json["samples_us"] = run.timing.samples_us;
  report.json["predicted_us"] = predicted;
  report.json["minimum_bytes"] = run.minimum_bytes;
  report.json["copy_bytes_per_us"] = run.copy_bytes_per_us;
  report.json["floor_us"] = run.floor_us;
  report.json["sol"] = run.speed_of_light();
  return report;
}

}  // namespace

Result<Report> run_command(const RunArguments& arguments) {
  auto problem = load_problem(arguments.problem);
  if (!problem) return fail(problem.error());
  auto plan = plan_problem(*problem);
  if (!plan) return fail(plan.error());
  auto session = open_session(std::move(*plan), problem->plan_options.families);
  if (!session) return fail(session.error());
  auto run = run_on_device(problem->fusion, session->executable, *session->driver,
                           {.seed = arguments.seed, .timing = {.samples = arguments.samples}});
  if (!run) return fail(run.error());
  return make_report(session->executable.compiled(), *run);
}

}  // namespace sinter::tool
