#include "runtime/check/device_run.h"

#include <algorithm>
#include <set>

#include "runtime/check/host_execution.h"
#include "runtime/check/reference_tensors.h"
#include "runtime/check/row_repetition.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/oracle/oracle.h"

namespace sinter {
namespace {

class RunOnDevice {
 public:
  RunOnDevice(const DeviceReference& reference, const Executable& executable, DeviceDriver& driver,
              const DeviceRunOptions& options)
      : reference_(reference), executable_(executable), driver_(driver), options_(options) {}

  Result<DeviceRun> run() {
    auto context = DeviceContext::retain(driver_, options_.device);
    if (!context) return fail(context.error());
    auto current = CurrentContext::enter(driver_, *context);
    if (!current) return fail(current.error());

    DeviceRun out{.check = {}, .timing = {}, .minimum_bytes = plan_bytes()};
    auto checked = make_tensors().and_then([&] { return execute(nullptr); }).and_then([&] {
      return compare_outputs();
    });
    if (!checked) return fail(checked.error());
    out.check = std::move(*checked);
    if (!options_.time || !out.check.passed()) return out;

    auto timing = time_launches(
        driver_, options_.device, nullptr, [this](StreamHandle stream) { return execute(stream); },
        options_.timing);
    if (!timing) return fail(timing.error());
    out.timing = std::move(*timing);
    auto rate = options_.copy_bytes_per_us ? Result<double>(*options_.copy_bytes_per_us)
                                           : measure_copy_rate(driver_, options_.device);
    if (!rate) return fail(rate.error());
    out.copy_bytes_per_us = *rate;
    out.floor_us = static_cast<double>(out.minimum_bytes) / *rate;
    return out;
  }

 private:
  [[nodiscard]] int64_t plan_bytes() const { return minimum_bytes(executable_.compiled().plan); }

  Result<void> make_tensors() {
    auto tensors = ReferenceTensors::make(reference_, driver_);
    if (!tensors) return fail(tensors.error());
    tensors_.emplace(std::move(*tensors));
    auto workspace =
        DeviceBuffer::allocate(driver_, static_cast<size_t>(executable_.workspace_bytes()));
    if (!workspace) return fail(workspace.error());
    workspace_.emplace(std::move(*workspace));
    return {};
  }

  [[nodiscard]] Result<void> execute(StreamHandle stream) const {
    return executable_.execute(tensors_->inputs(), tensors_->outputs(), workspace_->pointer(),
                               static_cast<int64_t>(workspace_->bytes()), stream);
  }

  Result<DeviceCheck> compare_outputs() {
    if (auto done = check(driver_, DriverCall::kContextSynchronize, driver_.context_synchronize(),
                          "waiting for the kernel being checked");
        !done)
      return fail(done.error());
    return tensors_->compare();
  }

  const DeviceReference& reference_;
  const Executable& executable_;
  DeviceDriver& driver_;
  const DeviceRunOptions& options_;
  std::optional<ReferenceTensors> tensors_;
  std::optional<DeviceBuffer> workspace_;
};

}  // namespace

std::string DeviceCheck::text() const {
  std::string out = data.empty() ? "" : fmt::format("on sample data '{}':\n", data);
  for (const Mismatch& mismatch : mismatches) out += mismatch.text() + "\n";
  return out;
}

int64_t minimum_bytes(const Plan& plan) {
  if (!plan.kernels.empty() && plan.kernels.front().in_plan.empty()) {
    const SegmentFacts& facts = plan.kernels.front().facts;
    return facts.bytes_read + facts.bytes_written;
  }
  // A graph in parts: what they share counts once, and what they pass on not at all.
  std::set<ValueId> moved(plan.fusion.outputs.begin(), plan.fusion.outputs.end());
  for (const KernelPlan& kernel : plan.kernels) {
    for (const ValueId input : kernel.facts.fusion.inputs) {
      const ValueId value = kernel.in_plan.at(input);
      if (plan.fusion.def_as<InputOp>(value) != nullptr) moved.insert(value);
    }
  }
  int64_t bytes = 0;
  for (const ValueId id : moved) {
    const Value& value = plan.fusion.values[id];
    bytes += element_count(value.shape) * bytes_of(value.type);
  }
  return bytes;
}

DeviceReference make_reference(const Fusion& fusion, const Binding& binding,
                               const DeviceRunOptions& options, SampleData data) {
  DeviceReference out{.fusion = fusion,
                      .binding = binding,
                      .evaluated = binding,
                      .repeated = {},
                      .inputs = {},
                      .expected = {}};
  OracleOptions oracle{.external = options.external, .narrow = options.narrow};
  if (auto sliced = find_slices(fusion, binding)) {
    const int64_t period =
        sliced->period(sliced->has_totals ? options.total_elements : options.oracle_elements);
    out.binding = sliced->binding(sliced->slices);
    out.evaluated = sliced->binding(period);
    out.repeated = sliced->symbols();
    out.fusion = std::move(sliced->fusion);
    oracle.whole = out.binding;
  }
  out.inputs = sample_inputs(out.fusion, out.evaluated, options.seed, data);
  out.expected = evaluate(out.fusion, out.evaluated, out.inputs, oracle);
  return out;
}

DeviceReference make_reference(const Fusion& fusion, const Binding& binding,
                               std::vector<HostTensor> inputs, const DeviceRunOptions& options) {
  DeviceReference out{.fusion = fusion,
                      .binding = binding,
                      .evaluated = binding,
                      .repeated = {},
                      .inputs = std::move(inputs),
                      .expected = {}};
  out.expected = evaluate(fusion, binding, out.inputs,
                          {.external = options.external, .narrow = options.narrow});
  return out;
}

Result<DeviceRun> run_on_device(const DeviceReference& reference, const Executable& executable,
                                DeviceDriver& driver, const DeviceRunOptions& options) {
  return as_result([&]() -> Result<DeviceRun> {
    return RunOnDevice(reference, executable, driver, options).run();
  });
}

Result<DeviceRun> run_on_device(const Fusion& fusion, const Executable& executable,
                                DeviceDriver& driver, const DeviceRunOptions& options) {
  return as_result([&]() -> Result<DeviceRun> {
    const Binding& binding = executable.compiled().plan.binding;
    // Most results lie within narrow bounds.
    DeviceRunOptions narrow = options;
    DeviceRunOptions full = options;
    narrow.narrow = true;
    full.narrow = false;
    auto ordinary =
        run_on_device(make_reference(fusion, binding, narrow), executable, driver, options);
    if (!ordinary) return ordinary;
    const bool contracts = std::ranges::any_of(
        fusion.ops, [](const Op& op) { return std::holds_alternative<ContractOp>(op.kind); });
    if (!ordinary->check.passed() && contracts)
      ordinary = run_on_device(make_reference(fusion, binding, full), executable, driver, options);
    if (!ordinary) return ordinary;
    if (!ordinary->check.passed()) {
      ordinary->check.data = name_of(SampleData{});
      return ordinary;
    }
    DeviceRunOptions untimed = full;
    untimed.time = false;
    untimed.oracle_elements = std::min(options.oracle_elements, options.hard_elements);
    untimed.total_elements = std::min(options.total_elements, options.hard_elements);
    for (const SampleData& data : options.hard_data) {
      auto run = run_on_device(make_reference(fusion, binding, untimed, data), executable, driver,
                               untimed);
      if (!run) return run;
      DeviceCheck& check = run->check;
      check.worst_ratio = std::max(check.worst_ratio, ordinary->check.worst_ratio);
      check.data_sets = ordinary->check.data_sets + 1;
      if (!check.passed()) {
        check.data = name_of(data);
        return run;
      }
      ordinary->check.worst_ratio = check.worst_ratio;
      ordinary->check.data_sets = check.data_sets;
    }
    return ordinary;
  });
}

Result<double> measure_copy_rate(DeviceDriver& driver, DeviceOrdinal device, int64_t bytes) {
  auto context = DeviceContext::retain(driver, device);
  if (!context) return fail(context.error());
  auto current = CurrentContext::enter(driver, *context);
  if (!current) return fail(current.error());
  const auto size = static_cast<size_t>(bytes);
  auto from = DeviceBuffer::allocate(driver, size);
  if (!from) return fail(from.error());
  auto to = DeviceBuffer::allocate(driver, size);
  if (!to) return fail(to.error());
  auto timing = time_launches(
      driver, device, nullptr,
      [&](StreamHandle stream) {
        return check(driver, DriverCall::kCopyOnDeviceAsync,
                     driver.copy_on_device_async(to->pointer(), from->pointer(), size, stream),
                     "measuring the copy rate");
      },
      {.cold_l2 = false});
  if (!timing) return fail(timing.error());
  constexpr double kReadAndWritten = 2.0;
  return kReadAndWritten * static_cast<double>(bytes) / timing->median_us;
}

}  // namespace sinter
