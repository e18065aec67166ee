#include "runtime/device_run.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "runtime/device_buffer.h"
#include "runtime/host_execution.h"
#include "runtime/oracle/oracle.h"
#include "runtime/row_repetition.h"

namespace sinter {
namespace {

/// True if the value has the repeated axis, which then is its outermost one.
bool repeats(const std::optional<SymbolId>& symbol, const Value& value) {
  return symbol && !value.shape.empty() && value.shape.front() == Extent(*symbol);
}

/// True if one slice of a tensor ends before the next one begins, or, of an input, all are one.
bool slices_are_apart(const Sizes& sizes, const Sizes& strides) {
  int64_t reach = 1;
  for (size_t axis = 1; axis < sizes.size(); ++axis)
    reach += std::max<int64_t>(sizes[axis] - 1, 0) * strides[axis];
  return strides[0] == 0 || strides[0] >= reach;
}

/// The extent along which a fusion works slice by slice and its inputs may repeat.
std::optional<SymbolId> repeated_symbol(const Fusion& fusion, const Binding& binding) {
  const std::optional<SymbolId> symbol = slicewise_symbol(fusion);
  for (const ValueId input : fusion.inputs) {
    if (!repeats(symbol, fusion.values[input])) continue;
    if (!slices_are_apart(binding.sizes_of(fusion.values[input].shape),
                          input_strides(fusion, binding, input)))
      return std::nullopt;
  }
  for (const ValueId output : fusion.outputs) {
    if (!repeats(symbol, fusion.values[output])) continue;
    if (!slices_are_apart(binding.sizes_of(fusion.values[output].shape),
                          output_strides(fusion, binding, output)))
      return std::nullopt;
  }
  return symbol;
}

Result<void> fill(DeviceDriver& driver, const DeviceBuffer& buffer, unsigned char byte) {
  if (buffer.bytes() == 0) return {};
  return check(driver, DriverCall::kFillAsync,
               driver.fill_async(buffer.pointer(), byte, buffer.bytes(), nullptr),
               "poisoning an output");
}

/// What an output must hold in its first `slices` slices.
OracleResult first_slices(const OracleResult& expected, size_t output, int64_t slices) {
  OracleResult out;
  out.outputs.resize(output + 1);
  OracleOutput& cut = out.outputs[output];
  cut = expected.outputs[output];
  cut.sizes[0] = slices;
  const auto count = static_cast<size_t>(element_count(cut.sizes));
  if (!cut.real.empty()) cut.real.resize(count);
  if (!cut.integer.empty()) cut.integer.resize(count);
  cut.bound.resize(count);
  return out;
}

/// The worse of two findings on one output, with the elements of both.
Mismatch merged(const Mismatch& a, const Mismatch& b) {
  const bool second =
      std::abs(b.actual - b.expected) * a.bound > std::abs(a.actual - a.expected) * b.bound;
  Mismatch out = second ? b : a;
  out.count = a.count + b.count;
  return out;
}

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

  [[nodiscard]] const Fusion& fusion() const { return reference_.fusion; }
  /// Slices in all, and those the oracle evaluated; 0 where there are none.
  [[nodiscard]] int64_t slices() const { return slices_of(reference_.binding); }
  [[nodiscard]] int64_t period() const { return slices_of(reference_.evaluated); }
  [[nodiscard]] int64_t slices_of(const Binding& binding) const {
    return reference_.repeated ? binding.symbol_sizes[reference_.repeated->index] : 0;
  }

  Result<void> make_tensors() {
    for (size_t i = 0; i < reference_.inputs.size(); ++i) {
      if (auto made = make_input(fusion().inputs[i], reference_.inputs[i]); !made) return made;
    }
    for (const ValueId output : fusion().outputs) {
      if (auto made = make_output(output); !made) return made;
    }
    auto workspace =
        DeviceBuffer::allocate(driver_, static_cast<size_t>(executable_.workspace_bytes()));
    if (!workspace) return fail(workspace.error());
    workspace_.emplace(std::move(*workspace));
    return {};
  }

  /// Uploads one period and repeats it on the device.
  Result<void> make_input(ValueId input, const HostTensor& period) {
    const Value& value = fusion().values[input];
    const int64_t pitch =
        repeats(reference_.repeated, value) ? period.strides()[0] * bytes_of(value.type) : 0;
    const int64_t added = (slices() - this->period()) * pitch;
    const std::span<const std::byte> bytes = period.storage();
    const int64_t origin = period.data() - bytes.data();
    auto buffer = DeviceBuffer::allocate(driver_, bytes.size() + static_cast<size_t>(added));
    if (!buffer) return fail(buffer.error());
    if (auto copied = buffer->upload(bytes); !copied) return copied;
    const int64_t end = static_cast<int64_t>(buffer->bytes());
    const int64_t stride = this->period() * pitch;
    for (int64_t to = origin + stride; added > 0 && to < end; to += stride) {
      const auto chunk =
          static_cast<size_t>(std::min(static_cast<int64_t>(bytes.size()) - origin, end - to));
      const DriverStatus status = driver_.copy_on_device_async(
          buffer->pointer() + static_cast<DevicePointer>(to),
          buffer->pointer() + static_cast<DevicePointer>(origin), chunk, nullptr);
      if (auto copied =
              check(driver_, DriverCall::kCopyOnDeviceAsync, status, "repeating an input");
          !copied)
        return copied;
    }
    inputs_.push_back({.address = buffer->pointer() + static_cast<DevicePointer>(origin),
                       .type = value.type,
                       .sizes = reference_.binding.sizes_of(value.shape),
                       .strides = input_strides(fusion(), reference_.binding, input)});
    buffers_.push_back(std::move(*buffer));
    return {};
  }

  Result<void> make_output(ValueId output) {
    const Value& value = fusion().values[output];
    const ValueId alias = fusion().layout_of(output).alias;
    if (alias.valid()) {
      const auto input = std::ranges::find(fusion().inputs, alias) - fusion().inputs.begin();
      outputs_.push_back(inputs_[static_cast<size_t>(input)]);
      memory_.push_back(static_cast<size_t>(input));
      return {};
    }
    memory_.push_back(buffers_.size());
    Sizes sizes = reference_.binding.sizes_of(value.shape);
    Sizes strides = output_strides(fusion(), reference_.binding, output);
    auto buffer = DeviceBuffer::allocate(
        driver_, static_cast<size_t>(reach_of(sizes, strides) * bytes_of(value.type)));
    if (!buffer) return fail(buffer.error());
    if (auto filled = fill(driver_, *buffer, 0xff); !filled) return filled;
    outputs_.push_back({.address = buffer->pointer(),
                        .type = value.type,
                        .sizes = std::move(sizes),
                        .strides = std::move(strides)});
    buffers_.push_back(std::move(*buffer));
    return {};
  }

  [[nodiscard]] Result<void> execute(StreamHandle stream) const {
    return executable_.execute(inputs_, outputs_, workspace_->pointer(),
                               static_cast<int64_t>(workspace_->bytes()), stream);
  }

  Result<DeviceCheck> compare_outputs() {
    if (auto done = check(driver_, DriverCall::kContextSynchronize, driver_.context_synchronize(),
                          "waiting for the kernel being checked");
        !done)
      return fail(done.error());
    DeviceCheck out{.mismatches = {}, .slices_evaluated = period(), .slices = slices()};
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (auto compared = compare_output(i, out); !compared) return fail(compared.error());
    }
    return out;
  }

  /// Downloads and compares an output period by period, so that the host never holds more than
  /// three of them. A period whose bytes are those of the first is judged as that was.
  Result<void> compare_output(size_t index, DeviceCheck& out) const {
    const DeviceBuffer& buffer = buffers_[memory_[index]];
    const OracleResult& expected = reference_.expected;
    const Tensor& tensor = outputs_[index];
    out.elements += element_count(tensor.sizes);
    const Sizes& period_sizes = expected.outputs[index].sizes;
    const auto bytes_of_slices = [&](const Sizes& sizes) {
      return static_cast<size_t>(reach_of(sizes, tensor.strides) * bytes_of(tensor.type));
    };
    const bool is_whole = period_sizes == tensor.sizes;
    const size_t origin = tensor.address - buffer.pointer();
    const size_t size = buffer.bytes() - origin;
    const size_t stride =
        is_whole ? std::max<size_t>(size, 1)
                 : static_cast<size_t>(period() * tensor.strides[0] * bytes_of(tensor.type));
    std::vector<std::byte> first(bytes_of_slices(period_sizes));
    std::vector<std::byte> later(is_whole ? 0 : first.size());
    std::optional<Mismatch> worst;
    bool first_is_right = true;
    for (size_t begin = 0; begin < size; begin += stride) {
      Sizes sizes = period_sizes;
      const auto earlier = static_cast<int64_t>(begin / stride) * period();
      if (!is_whole) sizes[0] = std::min(sizes[0], slices() - earlier);
      const size_t chunk = bytes_of_slices(sizes);
      const std::span bytes = std::span(begin == 0 ? first : later).first(chunk);
      if (auto copied = buffer.download(bytes, origin + begin); !copied) return copied;
      if (begin > 0 && first_is_right && std::memcmp(bytes.data(), first.data(), chunk) == 0)
        continue;
      HostTensor actual = HostTensor::poisoned(tensor.type, sizes, {.strides = tensor.strides});
      std::ranges::copy(bytes, actual.storage().begin());
      auto [ratio, mismatch] = sizes != period_sizes
                                   ? judge(first_slices(expected, index, sizes[0]), index, actual)
                                   : judge(expected, index, actual);
      out.worst_ratio = std::max(out.worst_ratio, ratio);
      if (begin == 0) first_is_right = !mismatch;
      if (!mismatch) continue;
      if (begin > 0) mismatch->index[0] += earlier;
      worst = worst ? merged(*worst, *mismatch) : *mismatch;
    }
    if (!worst) return {};
    worst->total = element_count(tensor.sizes);
    out.mismatches.push_back(*worst);
    return {};
  }

  const DeviceReference& reference_;
  const Executable& executable_;
  DeviceDriver& driver_;
  const DeviceRunOptions& options_;
  std::vector<DeviceBuffer> buffers_;  ///< Of the inputs, then of outputs with memory of their own.
  std::vector<size_t> memory_;         ///< By output: its buffer.
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::optional<DeviceBuffer> workspace_;
};

}  // namespace

std::string DeviceCheck::text() const {
  std::string out;
  for (const Mismatch& mismatch : mismatches) out += mismatch.text() + "\n";
  return out;
}

int64_t minimum_bytes(const Plan& plan) {
  if (!plan.segments.empty() && plan.segments.front().in_plan.empty()) {
    const SegmentFacts& facts = plan.segments.front().facts;
    return facts.bytes_read + facts.bytes_written;
  }
  // A graph in parts: what they share counts once, and what they pass on not at all.
  std::set<ValueId> moved(plan.fusion.outputs.begin(), plan.fusion.outputs.end());
  for (const SegmentPlan& segment : plan.segments) {
    for (const ValueId input : segment.facts.fusion.inputs) {
      const ValueId value = segment.in_plan.at(input);
      if (plan.fusion.def_as<InputOp>(value) != nullptr) moved.insert(value);
    }
  }
  int64_t bytes = 0;
  for (const ValueId id : moved) {
    const Value& value = plan.fusion.values[id];
    bytes += element_count(Binding{}.sizes_of(value.shape)) * bytes_of(value.type);
  }
  return bytes;
}

DeviceReference make_reference(const Fusion& fusion, const Binding& binding,
                               const DeviceRunOptions& options) {
  DeviceReference out{.fusion = fusion,
                      .binding = binding,
                      .evaluated = binding,
                      .repeated = repeated_symbol(fusion, binding),
                      .inputs = {},
                      .expected = {}};
  if (out.repeated) {
    out.evaluated.symbol_sizes[out.repeated->index] =
        repetition_period(fusion, binding, *out.repeated, options.oracle_elements);
  }
  out.inputs = sample_inputs(fusion, out.evaluated, options.seed);
  out.expected = evaluate(fusion, out.evaluated, out.inputs, {.external = options.external});
  return out;
}

Result<DeviceRun> run_on_device(const DeviceReference& reference, const Executable& executable,
                                DeviceDriver& driver, const DeviceRunOptions& options) {
  return RunOnDevice(reference, executable, driver, options).run();
}

Result<DeviceRun> run_on_device(const Fusion& fusion, const Executable& executable,
                                DeviceDriver& driver, const DeviceRunOptions& options) {
  const DeviceReference reference =
      make_reference(fusion, executable.compiled().plan.binding, options);
  return run_on_device(reference, executable, driver, options);
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
