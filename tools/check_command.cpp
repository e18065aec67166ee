#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "codegen/cuda/emit.h"
#include "fusion_ir/nearest_name.h"
#include "runtime/check/host_execution.h"
#include "runtime/check/npy.h"
#include "scheduler/report/text_table.h"
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

/// What is checked: sample data, or inputs of the user's.
struct Data {
  uint64_t seed = 1;
  std::vector<SampleData> sets{};
  std::vector<HostTensor> inputs{};         ///< Empty: sample data.
  std::map<size_t, std::string> outputs{};  ///< Files of outputs, by their position.
};

/// A tensor and a file, from "x=file.npy". Both names of a value are known: x and %v0.
struct NamedFile {
  size_t index = 0;
  std::string path;
};
Result<NamedFile> named_file(const Fusion& fusion, std::span<const ValueId> among,
                             std::string_view what, const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (equals == std::string::npos || name.empty() || equals + 1 == text.size()) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("'{}' is no {} and its file", text, what),
                 .remedy = "write name=file.npy"});
  }
  for (size_t i = 0; i < among.size(); ++i) {
    const Value& value = fusion.values[among[i]];
    if (value.name == name || fmt::format("{}", among[i]) == name)
      return NamedFile{i, text.substr(equals + 1)};
  }
  std::vector<std::string> names;
  for (const ValueId id : among) {
    const std::string& given = fusion.values[id].name;
    names.push_back(given.empty() ? fmt::format("{}", id) : given);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fail(
      {.kind = ErrorKind::kInvalidArgument,
       .message = fmt::format("no {} is named '{}'", what, name),
       .remedy = suggestion(name, known,
                            fmt::format("name one of the {}s {}", what, fmt::join(names, ", ")))});
}

/// Reads inputs from their files; those without one are ordinary sample data.
Result<std::vector<HostTensor>> read_inputs(const Fusion& fusion, const Binding& binding,
                                            const CheckArguments& arguments) {
  std::vector<HostTensor> out = sample_inputs(fusion, binding, arguments.seed);
  std::set<size_t> given;
  for (const std::string& text : arguments.inputs) {
    auto file = named_file(fusion, fusion.inputs, "input", text);
    if (!file) return fail(file.error());
    if (!given.insert(file->index).second) {
      return fail({.kind = ErrorKind::kInvalidArgument,
                   .message = fmt::format("'{}' is a second file for that input", text),
                   .remedy = "pass one file for each input"});
    }
    HostTensor& tensor = out[file->index];
    auto read = read_npy(file->path, tensor.type(), tensor.sizes());
    if (!read) {
      Error error = std::move(read.error());
      error.values = {fusion.inputs[file->index]};
      return fail(std::move(error));
    }
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_bits(i, read->bits(i));
  }
  return out;
}

Result<Data> data_of(const Fusion& fusion, const Binding& binding,
                     const CheckArguments& arguments) {
  Data out{.seed = arguments.seed};
  for (const std::string& name : arguments.data) {
    const auto data = find_sample_data(name);
    if (!data) return fail(data.error());
    out.sets.push_back(*data);
  }
  if (!arguments.inputs.empty()) {
    auto inputs = read_inputs(fusion, binding, arguments);
    if (!inputs) return fail(inputs.error());
    out.inputs = std::move(*inputs);
  }
  for (const std::string& text : arguments.outputs) {
    auto file = named_file(fusion, fusion.outputs, "output", text);
    if (!file) return fail(file.error());
    out.outputs[file->index] = file->path;
  }
  if (out.sets.empty()) {
    const auto affordable = sample_data_for(tensor_elements(fusion, binding));
    out.sets.assign(affordable.begin(), affordable.end());
  }
  return out;
}

/// The check in the interpreter; writes outputs that the user wants.
Result<HostCheck> checked_on_host(const Problem& problem, const Plan& plan, const Data& data,
                                  const InterpreterOptions& options) {
  const FamilySet& families = problem.plan_options.families;
  if (data.inputs.empty()) {
    return check_on_host(problem.fusion, plan.binding, plan, data.seed, families, options, {},
                         data.sets);
  }
  auto check = check_on_host(problem.fusion, plan.binding, plan, data.inputs, families, options);
  if (!check || data.outputs.empty()) return check;
  auto run = execute_on_host(plan, data.inputs, families, options);
  if (!run) return fail(run.error());
  for (const auto& [index, path] : data.outputs) {
    if (auto written = write_npy(path, run->outputs[index]); !written) return fail(written.error());
  }
  return check;
}

std::string sets_text(size_t sets) {
  return sets == 1 ? "" : fmt::format(" on {} kinds of data", sets);
}

/// The interpreter's half of the report.
Result<Report> check_in_interpreter(const Problem& problem, const Plan& plan, const Data& data) {
  // The first kernel that runs in the interpreter, to which the report belongs: none in a plan of
  // library calls alone.
  const FamilySet& families = problem.plan_options.families;
  const auto kernel = std::ranges::find_if(plan.kernels, [&](const KernelPlan& planned) {
    return !is_library_call(families, planned.chosen().schedule.family);
  });
  LoweredKernel lowered;
  if (kernel != plan.kernels.end()) {
    auto made = lower(kernel->facts, kernel->chosen().schedule, families);
    if (!made) return fail(made.error());
    lowered = std::move(*made);
  }
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto checked = checked_on_host(problem, plan, data, {.seed = data.seed, .threads = threads});
  if (!checked) return fail(checked.error());
  Json buffers = Json::object();
  for (uint32_t i = 0; i < lowered.kernel.buffers.size(); ++i) {
    const kir::Buffer& buffer = lowered.kernel.buffers[kir::BufferId{i}];
    if (buffer.space == kir::Space::kGlobal)
      buffers[buffer.name] = to_json(checked->report.buffers[kir::BufferId{i}]);
  }
  Report report{.passed = checked->passed()};
  report.text = fmt::format(
      "interpreter: {}{}; {} finding(s), {} wrong output(s), worst error {:.3g} of its bound\n{}{}",
      checked->passed() ? "passed" : "FAILED", sets_text(checked->data_sets),
      checked->report.findings.size(), checked->mismatches.size(), checked->worst_ratio,
      checked->text(), traffic_text(lowered, checked->report));
  report.json = {{"passed", checked->passed()},
                 {"worst_error_over_bound", checked->worst_ratio},
                 {"data_sets", checked->data_sets},
                 {"data", checked->data},
                 {"blocks", checked->report.blocks},
                 {"findings", to_json_list(checked->report.findings)},
                 {"mismatches", to_json_list(checked->mismatches)},
                 {"traffic", std::move(buffers)},
                 {"work", to_json(checked->report.work)}};
  return report;
}

/// The device's half: planned again for the device that is there.
Result<Report> check_on_device(Problem problem, const Data& data) {
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
  DeviceRunOptions options{.seed = data.seed, .time = false};
  // Ordinary data is always checked.
  const bool begins_ordinary = data.sets.front() == SampleData{};
  options.hard_data = std::span(data.sets).subspan(begins_ordinary ? 1 : 0);
  auto run =
      data.inputs.empty()
          ? run_on_device(problem.fusion, session->executable, *session->driver, options)
          : run_on_device(make_reference(problem.fusion,
                                         session->executable.compiled().plan.binding, data.inputs),
                          session->executable, *session->driver, options);
  if (!run) return fail(run.error());
  const DeviceCheck& check = run->check;
  return Report{.text = fmt::format(
                    "device {}: {}{}; {} elements, worst error {:.3g} of its bound\n{}",
                    problem.limits.name, check.passed() ? "passed" : "FAILED",
                    sets_text(check.data_sets), check.elements, check.worst_ratio, check.text()),
                .json = {{"checked", true},
                         {"device", problem.limits.name},
                         {"passed", check.passed()},
                         {"elements", check.elements},
                         {"data_sets", check.data_sets},
                         {"data", check.data},
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
  if (auto possible = check_is_possible(problem->fusion, *plan); !possible)
    return fail(possible.error());
  auto data = data_of(problem->fusion, plan->binding, arguments);
  if (!data) return fail(data.error());
  auto host = check_in_interpreter(*problem, *plan, *data);
  if (!host) return fail(host.error());
  auto device = check_on_device(std::move(*problem), *data);
  if (!device) return fail(device.error());
  const KernelPlan& segment = plan->kernels.front();
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
