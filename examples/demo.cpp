// Three fusions of language models from graph to checked kernels. With a GPU they run at full size;
// without one they are planned and compiled at full size for an H200, and a few rows run in the
// interpreter.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <thread>

#include "examples/cross_entropy.h"
#include "examples/gpt2_norm_gradient.h"
#include "examples/llama_rms_norm.h"
#include "fusion_ir/printer.h"
#include "runtime/check/device_run.h"
#include "runtime/check/host_execution.h"
#include "runtime/compile/compile_plan.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/explain.h"
#include "scheduler/report/text_table.h"

namespace sinter::examples {
namespace {

/// What this machine has of what it takes to run on a GPU.
struct Machine {
  Result<DeviceDriver*> driver = cuda_driver();
  Result<NvrtcCompiler> compiler = NvrtcCompiler::open();
  DeviceLimits limits = *find_device("H200");
  std::optional<double> copy_bytes_per_us{};  ///< Present: there is a GPU, and this is its rate.

  [[nodiscard]] bool can_run() const { return copy_bytes_per_us.has_value(); }
};

Result<Machine> look_around() {
  Machine machine;
  if (machine.driver && machine.compiler) {
    auto limits = query_device(**machine.driver, 0);
    if (!limits) return fail(limits.error());
    machine.limits = std::move(*limits);
    auto rate = measure_copy_rate(**machine.driver, 0);
    if (!rate) return fail(rate.error());
    machine.copy_bytes_per_us = *rate;
    fmt::print("Running on {}: copies move {:.0f} GB/s\n", machine.limits.name, *rate / 1e3);
  } else {
    fmt::print("No GPU run: {}. Planning for {} instead\n",
               (machine.driver ? machine.compiler.error() : machine.driver.error()).message,
               machine.limits.name);
  }
  return machine;
}

/// What was held against the oracle and found right.
struct Checked {
  int64_t kernels = 0;
  int64_t elements = 0;
  double worst_ratio = 0.0;  ///< Largest error over its bound.
};

/// Predicted resources beside those the compiler reports, for every candidate it saw.
void print_resources(const KernelBuild& kernel) {
  for (const CompileAttempt& attempt : kernel.attempts) {
    const ResourceEstimate& predicted = attempt.proposed.estimate;
    const bool chosen = attempt.proposed == kernel.chosen;
    TextTable table({chosen ? "compiled, chosen" : "compiled, not chosen", "predicted", "ptxas"},
                    {TextTable::Align::kLeft});
    const auto add = [&](std::string name, int64_t estimate, int64_t truth) {
      table.row({std::move(name), fmt::format("{}", estimate), fmt::format("{}", truth)});
    };
    add("registers per thread", predicted.registers, attempt.resources.registers);
    add("bytes spilled per thread", predicted.spilled_registers * 4,
        attempt.resources.spill_store_bytes);
    // Dynamic shared memory is given at launch; ptxas reports the static kind.
    add("shared bytes per block", predicted.shared_bytes,
        chosen && kernel.source.dynamic_shared ? kernel.source.shared_bytes
                                               : attempt.resources.shared_bytes);
    fmt::print("{}", table.text(0));
  }
}

Result<Checked> run_at_full_size(const Machine& machine, const Fusion& fusion,
                                 CompiledPlan compiled) {
  const auto kernels = static_cast<int64_t>(compiled.kernels.size());
  const double predicted = compiled.plan.predicted_us();
  auto executable = Executable::prepare(std::move(compiled), **machine.driver);
  if (!executable) return fail(executable.error());
  auto run = run_on_device(fusion, *executable, **machine.driver,
                           {.copy_bytes_per_us = machine.copy_bytes_per_us});
  if (!run) return fail(run.error());
  fmt::print("checked against the oracle: {} elements, worst error {:.3g} of its bound\n{}",
             run->check.elements, run->check.worst_ratio, run->check.text());
  if (!run->check.passed()) {
    return fail({.kind = ErrorKind::kInternalError,
                 .message = fmt::format("the kernel of {} computes wrong values", fusion.name)});
  }
  fmt::print("{:.1f} us (predicted {:.1f}), SOL {:.3f}: {} at the copy rate take {:.1f} us\n",
             run->timing.median_us, predicted, run->speed_of_light(),
             bytes_text(static_cast<double>(run->minimum_bytes)), run->floor_us);
  return Checked{kernels, run->check.elements, run->check.worst_ratio};
}

/// A fusion with as many tokens as it is planned for, and as the interpreter runs.
struct Show {
  Fusion fusion;
  int64_t tokens = 0;
  int64_t interpreted_tokens = 0;
};

/// Runs the same schedule on fewer tokens in the interpreter.
Result<Checked> run_some_rows(const Show& shown, const Schedule& schedule,
                              const DeviceLimits& limits) {
  const auto& [fusion, all_tokens, tokens] = shown;
  fmt::print("no GPU: {} of {} tokens run in the interpreter\n", tokens, all_tokens);
  const FamilySet families = builtin_families();
  auto reduced = plan(fusion, {{"tokens", tokens}}, limits,
                      {.families = families, .pin = {.schedule = schedule}});
  if (!reduced) return fail(reduced.error());
  const auto inputs = sample_inputs(fusion, reduced->binding, 1);
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  auto check = check_on_host(fusion, reduced->binding, *reduced, schedule, inputs, families,
                             {.threads = threads});
  if (!check) return fail(check.error());
  const BufferTraffic traffic = check->report.total_traffic();
  fmt::print("checked against the oracle: worst error {:.3g} of its bound; {} read, {} written\n",
             check->worst_ratio, bytes_text(static_cast<double>(traffic.bytes_read)),
             bytes_text(static_cast<double>(traffic.bytes_written)));
  if (check->passed()) {
    Checked checked{.kernels = static_cast<int64_t>(reduced->kernels.size()),
                    .worst_ratio = check->worst_ratio};
    for (const HostTensor& output : poisoned_outputs(fusion, reduced->binding))
      checked.elements += output.count();
    return checked;
  }
  return fail({.kind = ErrorKind::kInternalError,
               .message = fmt::format("the kernel of {} is wrong", fusion.name),
               .log = check->text()});
}

Result<Checked> show(const Machine& machine, const Show& shown) {
  const Fusion& fusion = shown.fusion;
  fmt::print("\n=== {}, {} tokens ===\n\n{}\n", fusion.name, shown.tokens, print(fusion));
  auto planned =
      plan(fusion, {{"tokens", shown.tokens}}, machine.limits, {.families = builtin_families()});
  if (!planned) return fail(planned.error());
  fmt::print("{}\n{}\n", explain(*planned), print(planned->kernels.front().chosen().schedule));
  if (!machine.compiler) {
    fmt::print("not compiled: {}\n", machine.compiler.error().message);
    return run_some_rows(shown, planned->kernels.front().chosen().schedule, machine.limits);
  }
  KernelCache cache(KernelCacheOptions::from_environment());
  auto compiled = compile_plan(std::move(*planned), *machine.compiler, cache);
  if (!compiled) return fail(compiled.error());
  for (const KernelBuild& kernel : compiled->kernels) print_resources(kernel);
  fmt::print("\n");
  if (machine.can_run()) return run_at_full_size(machine, fusion, std::move(*compiled));
  return run_some_rows(shown, compiled->kernels.front().chosen.schedule, machine.limits);
}

Result<void> demo() {
  auto machine = look_around();
  if (!machine) return fail(machine.error());
  const Show shows[] = {
      {.fusion = llama_rms_norm(), .tokens = 8192, .interpreted_tokens = 64},
      {.fusion = vocabulary_cross_entropy(), .tokens = 8192, .interpreted_tokens = 4},
      {.fusion = gpt2_norm_gradient(), .tokens = 16384, .interpreted_tokens = 300},
  };
  Checked all;
  for (const Show& shown : shows) {
    const auto checked = show(*machine, shown);
    if (!checked) return fail(checked.error());
    all.kernels += checked->kernels;
    all.elements += checked->elements;
    all.worst_ratio = std::max(all.worst_ratio, checked->worst_ratio);
  }
  fmt::print(
      "\nAll right: {} kernels of {} graphs, {} elements, {}; the worst error is {:.3g} of its "
      "bound\n",
      all.kernels, std::size(shows), all.elements,
      machine->can_run() ? "run on the GPU and held against the oracle"
                         : "run in the interpreter and held against the oracle",
      all.worst_ratio);
  return {};
}

}  // namespace
}  // namespace sinter::examples

int main() {
  try {
    if (const auto done = sinter::examples::demo(); !done) {
      fmt::print(stderr, "{}\n", done.error().text());
      return 1;
    }
  } catch (const sinter::SinterException& exception) {
    fmt::print(stderr, "{}\n", exception.what());
    return 1;
  }
  return 0;
}
