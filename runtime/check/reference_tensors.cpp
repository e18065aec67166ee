#include "runtime/check/reference_tensors.h"

#include <algorithm>
#include <cstring>

#include "runtime/check/host_execution.h"

namespace sinter {
namespace {

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

}  // namespace

Result<ReferenceTensors> ReferenceTensors::make(const DeviceReference& reference,
                                                DeviceDriver& driver) {
  ReferenceTensors out(reference, driver);
  for (size_t i = 0; i < reference.inputs.size(); ++i) {
    if (auto made = out.make_input(i); !made) return fail(std::move(made.error()));
  }
  for (const ValueId output : reference.fusion.outputs) {
    if (auto made = out.make_output(output); !made) return fail(std::move(made.error()));
  }
  return out;
}

Result<void> ReferenceTensors::reset() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const size_t memory = memory_[i];
    auto done =
        memory < inputs_.size() ? fill_input(memory) : fill(*driver_, buffers_[memory], 0xff);
    if (!done) return done;
  }
  return {};
}

ReferenceTensors::Repetition ReferenceTensors::repetition_of(ValueId value) const {
  const Shape& shape = fusion().values[value].shape;
  if (shape.empty() || !shape.front().is_symbol() ||
      std::ranges::find(reference_->repeated, shape.front().symbol()) == reference_->repeated.end())
    return {};
  return {.period = reference_->evaluated.size_of(shape.front()),
          .slices = reference_->binding.size_of(shape.front())};
}

Result<void> ReferenceTensors::make_input(size_t index) {
  const ValueId input = fusion().inputs[index];
  const HostTensor& period = reference_->inputs[index];
  const Value& value = fusion().values[input];
  const int64_t added = repetition_of(input).added() * pitch_of(index);
  const std::span<const std::byte> bytes = period.storage();
  const int64_t origin = period.data() - bytes.data();
  auto buffer = DeviceBuffer::allocate(*driver_, bytes.size() + static_cast<size_t>(added));
  if (!buffer) return fail(buffer.error());
  inputs_.push_back({.address = buffer->pointer() + static_cast<DevicePointer>(origin),
                     .type = value.type,
                     .sizes = reference_->binding.sizes_of(value.shape),
                     .strides = input_strides(fusion(), reference_->binding, input)});
  buffers_.push_back(std::move(*buffer));
  return fill_input(index);
}

int64_t ReferenceTensors::pitch_of(size_t index) const {
  const ValueId input = fusion().inputs[index];
  return repetition_of(input).slices > 0
             ? reference_->inputs[index].strides()[0] * bytes_of(fusion().values[input].type)
             : 0;
}

Result<void> ReferenceTensors::fill_input(size_t index) {
  const HostTensor& period = reference_->inputs[index];
  const std::span<const std::byte> bytes = period.storage();
  const int64_t origin = period.data() - bytes.data();
  const int64_t pitch = pitch_of(index);
  const Repetition repetition = repetition_of(fusion().inputs[index]);
  const int64_t added = repetition.added() * pitch;
  DeviceBuffer& buffer = buffers_[index];
  if (auto copied = buffer.upload(bytes); !copied) return copied;
  const int64_t end = static_cast<int64_t>(buffer.bytes());
  const int64_t stride = repetition.period * pitch;
  for (int64_t to = origin + stride; added > 0 && to < end; to += stride) {
    const auto chunk =
        static_cast<size_t>(std::min(static_cast<int64_t>(bytes.size()) - origin, end - to));
    const DriverStatus status = driver_->copy_on_device_async(
        buffer.pointer() + static_cast<DevicePointer>(to),
        buffer.pointer() + static_cast<DevicePointer>(origin), chunk, nullptr);
    if (auto copied = check(*driver_, DriverCall::kCopyOnDeviceAsync, status, "repeating an input");
        !copied)
      return copied;
  }
  return {};
}

Result<void> ReferenceTensors::make_output(ValueId output) {
  const Value& value = fusion().values[output];
  const ValueId alias = fusion().layout_of(output).alias;
  if (alias.valid()) {
    const auto input = std::ranges::find(fusion().inputs, alias) - fusion().inputs.begin();
    outputs_.push_back(inputs_[static_cast<size_t>(input)]);
    memory_.push_back(static_cast<size_t>(input));
    return {};
  }
  memory_.push_back(buffers_.size());
  Sizes sizes = reference_->binding.sizes_of(value.shape);
  Sizes strides = output_strides(fusion(), reference_->binding, output);
  auto buffer = DeviceBuffer::allocate(
      *driver_, static_cast<size_t>(reach_of(sizes, strides) * bytes_of(value.type)));
  if (!buffer) return fail(buffer.error());
  if (auto filled = fill(*driver_, *buffer, 0xff); !filled) return filled;
  outputs_.push_back({.address = buffer->pointer(),
                      .type = value.type,
                      .sizes = std::move(sizes),
                      .strides = std::move(strides)});
  buffers_.push_back(std::move(*buffer));
  return {};
}

Result<DeviceCheck> ReferenceTensors::compare() const {
  DeviceCheck out;
  if (!reference_->repeated.empty()) {
    const Extent axis = reference_->repeated.front();
    out.slices_evaluated = reference_->evaluated.size_of(axis);
    out.slices = reference_->binding.size_of(axis);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (auto compared = compare_output(i, out); !compared) return fail(compared.error());
  }
  return out;
}

Result<void> ReferenceTensors::compare_output(size_t index, DeviceCheck& out) const {
  const DeviceBuffer& buffer = buffers_[memory_[index]];
  const OracleResult& expected = reference_->expected;
  const Tensor& tensor = outputs_[index];
  out.elements += element_count(tensor.sizes);
  const Sizes& period_sizes = expected.outputs[index].sizes;
  const auto bytes_of_slices = [&](const Sizes& sizes) {
    return static_cast<size_t>(reach_of(sizes, tensor.strides) * bytes_of(tensor.type));
  };
  const bool is_whole = period_sizes == tensor.sizes;
  const size_t origin = tensor.address - buffer.pointer();
  const size_t size = buffer.bytes() - origin;
  const auto [period, slices] = repetition_of(fusion().outputs[index]);
  const size_t stride =
      is_whole ? std::max<size_t>(size, 1)
               : static_cast<size_t>(period * tensor.strides[0] * bytes_of(tensor.type));
  std::vector<std::byte> first(bytes_of_slices(period_sizes));
  std::vector<std::byte> later(is_whole ? 0 : first.size());
  std::optional<Mismatch> worst;
  bool first_is_right = true;
  for (size_t begin = 0; begin < size; begin += stride) {
    Sizes sizes = period_sizes;
    const auto earlier = static_cast<int64_t>(begin / stride) * period;
    if (!is_whole) sizes[0] = std::min(sizes[0], slices - earlier);
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

}  // namespace sinter
