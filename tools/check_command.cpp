#include <unistd.h>

#include <algorithm>
#include <thread>

#include "codegen/lower.h"
#include "runtime/host_execution.h"
#include "scheduler/text_table.h"
#include "tools/command.h"
#include "tools/device_session.h"
#include "tools/json.h"
#include "tools/problem.h"

namespace sinter::tool {
namespace {

std::string traffic_text(const LoweredKernel& lowered, const InterpreterReport& interpreted) {
  TextTable table({"buffer", "read", "written", "load sectors", "store sectors"},
                  {TextTable::Align::kLeft});
  for (uint32_t i = 0; i < lowered.kernel.buffers.size(); ++i) {
    const kir::BufferId id{i};
    const kir::Buffer& buffer = lowered.kernel.buffers[id];
    if (buffer.space != kir::Space::kGlobal) continue;
    const BufferTraffic& traffic = interpreted.buffers[id];
    table.row({buffer.name, bytes_text(static_cast<double>(traffic.bytes_read)),
               bytes_text(static_cast<double>(traffic.bytes_written)),
               fmt::format("{}", traffic.load_sectors + traffic.async_sectors),
               fmt::format("{}", traffic.store_sectors)});
  }
  const WorkCounts& work = interpreted.work;
  return table.text() +
         fmt::format(
             "  shared memory: {} read, {} written, {} bank conflicts; {} barriers, {} shuffles\n",
             bytes_text(static_cast<double>(work.shared_bytes_read)),
             bytes_text(static_cast<double>(work.shared_bytes_written)), work.bank_conflicts,
             work.barriers, work.shuffles);
}

/// Refuses what cannot fit: every tensor lies in host memory, and beside every element of an output
/// its expected value and bound.
Result<void> check_memory(const Fusion& fusion, const Binding& binding) {
  constexpr double kOracleBytes = 2 * sizeof(double);
  double bytes = 0.0;
  const auto add = [&](ValueId id, double extra) {
    const Value& value = fusion.values[id];
    double count = 1.0;
    for (const int64_t size : binding.sizes_of(value.shape)) count *= static_cast<double>(size);
    bytes += count * (static_cast<double>(bytes_of(value.type)) + extra);
  };
  for (const ValueId input : fusion.inputs) add(input, 0.0);
  for (const ValueId output : fusion.outputs) add(output, kOracleBytes);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return {};
  return fail({.kind = ErrorKind::kResourceExhausted,
               .message = fmt::format("the check takes {} of memory at least, this machine has {}",
                                      bytes_text(bytes), bytes_text(memory)),
               .remedy = "choose smaller extents"});
}

/// The interpreter's half of the report.
Result<Report> check_in_interpreter(const Problem& problem, const Plan& plan, uint64_t seed) {
  const SegmentPlan& segment = plan.segments.front();
  auto lowered = lower(segment.facts, segment.chosen().schedule, problem.plan_options.families);
  if (!lowered) return fail(lowered.error());
  const auto inputs = sample_inputs(problem.fusion, plan.binding, seed);
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto checked =
      check_on_host(problem.fusion, plan.binding, plan, segment.chosen().schedule, inputs,
                    problem.plan_options.families, {.seed = seed, .threads = threads});
  if (!checked) return fail(checked.error());
  Json buffers = Json::object();
  for (uint32_t i = 0; i < lowered->kernel.buffers.size(); ++i) {
    const kir::Buffer& buffer = lowered->kernel.buffers[kir::BufferId{i}];
    if (buffer.space == kir::Space::kGlobal)
      buffers[buffer.name] = to_json(checked->report.buffers[kir::BufferId{i}]);
  }
  Report report{.passed = checked->passed()};
  report.text = fmt::format(
      "interpreter: {}; {} finding(s), {} wrong output(s), worst error {:.3g} of its bound\n{}{}",
      checked->passed() ? "passed" : "FAILED", checked->report.findings.size(),
      checked->mismatches.size(), checked->worst_ratio, checked->text(),
      traffic_text(*lowered, checked->report));
  report.json = {{"passed", checked->passed()},
                 {"worst_error_over_bound", checked->worst_ratio},
                 {"blocks", checked->report.blocks},
                 {"findings", to_json_list(checked->report.findings)},
                 {"mismatches", to_json_list(checked->mismatches)},
                 {"traffic", std::move(buffers)},
                 {"work", to_json(checked->report.work)}};
  return report;
}

/// The device's half: planned again for the device that is there.
Result<Report> check_on_device(Problem problem, uint64_t seed) {
  if (auto found = find_device_tools(); !found) {
    return Report{.text = fmt::format("device: not checked. {}\n", found.error().text()),
                  .json = {{"checked", false}, {"because", Json::parse(found.error().json())}}};
  }
  auto limits = find_limits("live");
  if (!limits) return fail(limits.error());
  problem.limits = std::move(*limits);
  auto plan = plan_problem(problem);
  if (!plan) return fail(plan.error());
  auto session = open_session(std::move(*plan), problem.plan_options.families);
  if (!session) return fail(session.error());
  auto run = run_on_device(problem.fusion, session->executable, *session->driver,
                           {.seed = seed, .time = false});
  if (!run) return fail(run.error());
  const DeviceCheck& check = run->check;
  return Report{
      .text = fmt::format("device {}: {}; {} elements, worst error {:.3g} of its bound\n{}",
                          problem.limits.name, check.passed() ? "passed" : "FAILED", check.elements,
                          check.worst_ratio, check.text()),
      .json = {{"checked", true},
               {"device", problem.limits.name},
               {"passed", check.passed()},
               {"elements", check.elements},
               {"worst_error_over_bound", check.worst_ratio},
               {"mismatches", to_json_list(check.mismatches)}},
      .passed = check.passed()};
}

}  // namespace

Result<Report> check_command(const CheckArguments& arguments) {
  auto problem = load_problem(arguments.problem, DefaultSize::kSmall);
  if (!problem) return fail(problem.error());
  auto plan = plan_problem(*problem);
  if (!plan) return fail(plan.error());
  if (!plan->externals.empty()) {
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = fmt::format("'{}' has external calls, which this tool cannot run",
                                        plan->fusion.name),
                 .remedy = "check the graph with check_on_host() and functions for its calls",
                 .ops = {plan->externals.front().op}});
  }
  if (auto fits = check_memory(problem->fusion, plan->binding); !fits) return fail(fits.error());
  auto host = check_in_interpreter(*problem, *plan, arguments.seed);
  if (!host) return fail(host.error());
  auto device = check_on_device(std::move(*problem), arguments.seed);
  if (!device) return fail(device.error());
  const SegmentPlan& segment = plan->segments.front();
  Report report{.passed = host->passed && device->passed};
  report.text = fmt::format("{}: {} rows x {} columns, planned for {}\n{}{}", plan->fusion.name,
                            segment.facts.space.rows, segment.facts.space.columns,
                            plan->limits.name, host->text, device->text);
  report.json = {{"fusion", plan->fusion.name},
                 {"schedule", to_json(segment.chosen().schedule)},
                 {"passed", report.passed},
                 {"interpreter", std::move(host->json)},
                 {"device", std::move(device->json)}};
  return report;
}

}  // namespace sinter::tool
