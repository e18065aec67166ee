#include "runtime/oracle/host_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "fusion_ir/error.h"
#include "runtime/oracle/integer_range.h"

namespace sinter {
namespace {

constexpr std::byte kPoison{0xff};

[[noreturn]] void reject(std::string message, std::string remedy) {
  throw_error({.kind = ErrorKind::kInvalidArgument,
               .message = std::move(message),
               .remedy = std::move(remedy)});
}

/// Bytes of a storage that ends with the last element.
size_t storage_bytes(DType type, const Sizes& sizes, const Sizes& strides, int64_t byte_offset,
                     int64_t count) {
  if (count == 0) return static_cast<size_t>(byte_offset);
  int64_t bytes = 1;
  bool overflow = false;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(sizes[axis] - 1, strides[axis], &reach);
    overflow |= __builtin_add_overflow(bytes, reach, &bytes);
  }
  overflow |= __builtin_mul_overflow(bytes, bytes_of(type), &bytes);
  overflow |= __builtin_add_overflow(bytes, byte_offset, &bytes);
  if (overflow) {
    reject(fmt::format("a {} tensor of sizes [{}] and strides [{}] spans more than 2^63 bytes",
                       type, fmt::join(sizes, ", "), fmt::join(strides, ", ")),
           "use smaller sizes or strides");
  }
  return static_cast<size_t>(bytes);
}

/// Uniform in [0, 1) from the top 53 bits; std::uniform_real_distribution differs between
/// libraries.
double unit_interval(std::mt19937_64& generator) {
  return static_cast<double>(generator() >> 11U) * 0x1p-53;
}

/// Sum of four uniforms (Irwin-Hall), scaled to variance 1: bell-shaped and bounded by 2 sqrt(3).
double bell(std::mt19937_64& generator) {
  double sum = 0.0;
  for (int i = 0; i < 4; ++i) sum += unit_interval(generator);
  return (sum - 2.0) * std::sqrt(3.0);
}

}  // namespace

HostTensor::HostTensor(DType type, Sizes sizes, HostLayout layout)
    : type_(type), sizes_(std::move(sizes)), byte_offset_(layout.byte_offset) {
  const auto negative = [](int64_t x) { return x < 0; };
  if (std::ranges::any_of(sizes_, negative) || std::ranges::any_of(layout.strides, negative) ||
      byte_offset_ < 0) {
    reject(fmt::format("sizes [{}], strides [{}] and byte offset {} must not be negative",
                       fmt::join(sizes_, ", "), fmt::join(layout.strides, ", "), byte_offset_),
           "pass sizes, strides and an offset of at least zero");
  }
  count_ = element_count(sizes_);
  if (layout.strides.empty()) {
    strides_ = dense_strides(sizes_);
  } else if (layout.strides.size() != sizes_.size()) {
    reject(fmt::format("{} strides were given for {} axes", layout.strides.size(), sizes_.size()),
           "give one stride per axis, or none for a dense tensor");
  } else {
    strides_ = std::move(layout.strides);
    dense_ = strides_ == dense_strides(sizes_);
  }
  storage_.assign(storage_bytes(type_, sizes_, strides_, byte_offset_, count_), kPoison);
}

HostTensor HostTensor::zeros(DType type, Sizes sizes, HostLayout layout) {
  HostTensor tensor(type, std::move(sizes), std::move(layout));
  for (int64_t i = 0; i < tensor.count_; ++i) tensor.set_bits(i, 0);
  return tensor;
}

HostTensor HostTensor::poisoned(DType type, Sizes sizes, HostLayout layout) {
  return {type, std::move(sizes), std::move(layout)};
}

HostTensor HostTensor::random(DType type, Sizes sizes, const RandomSpec& spec, HostLayout layout) {
  HostTensor tensor(type, std::move(sizes), std::move(layout));
  std::mt19937_64 generator(spec.seed);
  if (is_float(type)) {
    for (int64_t i = 0; i < tensor.count_; ++i) {
      tensor.set(i, spec.mean + spec.deviation * bell(generator));
    }
    return tensor;
  }
  const int64_t low = std::max(spec.low, lowest_integer(type));
  const int64_t high = std::min(spec.high, highest_integer(type));
  if (low > high) {
    reject(fmt::format("no {} lies in [{}, {}]", type, spec.low, spec.high),
           "pass a range that meets the type's");
  }
  // In unsigned arithmetic, so that the full 64-bit range wraps to a span of 0 and stays defined.
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  for (int64_t i = 0; i < tensor.count_; ++i) {
    const uint64_t draw = span == 0 ? generator() : generator() % span;
    tensor.set_integer(i, static_cast<int64_t>(static_cast<uint64_t>(low) + draw));
  }
  return tensor;
}

HostTensor HostTensor::of(DType type, Sizes sizes, std::span<const double> values,
                          HostLayout layout) {
  HostTensor tensor(type, std::move(sizes), std::move(layout));
  if (static_cast<int64_t>(values.size()) != tensor.count_) {
    reject(fmt::format("{} values were given for a tensor of {} elements", values.size(),
                       tensor.count_),
           "give one value per element");
  }
  for (int64_t i = 0; i < tensor.count_; ++i) tensor.set(i, values[static_cast<size_t>(i)]);
  return tensor;
}

int64_t HostTensor::get_integer(int64_t element) const {
  const uint64_t stored = bits(element);
  return type_ == DType::kI64 ? static_cast<int64_t>(stored)
                              : static_cast<int64_t>(decode(type_, stored));
}

uint64_t HostTensor::bits(int64_t element) const {
  uint64_t stored = 0;
  std::memcpy(&stored, storage_.data() + byte_position(element),
              static_cast<size_t>(bytes_of(type_)));
  return stored;
}

void HostTensor::set_integer(int64_t element, int64_t value) {
  set_bits(element, type_ == DType::kI64 ? static_cast<uint64_t>(value)
                                         : encode(type_, static_cast<double>(value)));
}

void HostTensor::set_bits(int64_t element, uint64_t bits) {
  std::memcpy(storage_.data() + byte_position(element), &bits,
              static_cast<size_t>(bytes_of(type_)));
}

int64_t HostTensor::element_at(std::span<const int64_t> index) const {
  SINTER_CHECK_OP(index.size(), ==, sizes_.size());
  int64_t element = 0;
  for (size_t axis = 0; axis < sizes_.size(); ++axis) {
    SINTER_CHECK(index[axis] >= 0 && index[axis] < sizes_[axis], "index {} on axis {} of size {}",
                 index[axis], axis, sizes_[axis]);
    element = element * sizes_[axis] + index[axis];
  }
  return element;
}

Sizes HostTensor::index_of(int64_t element) const {
  Sizes index(sizes_.size());
  for (size_t axis = sizes_.size(); axis-- > 0;) {
    index[axis] = element % sizes_[axis];
    element /= sizes_[axis];
  }
  return index;
}

bool HostTensor::padding_intact() const {
  std::vector<bool> owned(storage_.size(), false);
  const auto bytes = static_cast<size_t>(bytes_of(type_));
  for (int64_t i = 0; i < count_; ++i) {
    const size_t position = byte_position(i);
    for (size_t b = 0; b < bytes; ++b) owned[position + b] = true;
  }
  for (size_t i = 0; i < storage_.size(); ++i) {
    if (!owned[i] && storage_[i] != kPoison) return false;
  }
  return true;
}

size_t HostTensor::byte_position(int64_t element) const {
  SINTER_CHECK(element >= 0 && element < count_, "element {} of {}", element, count_);
  int64_t offset = element;
  if (!dense_) {
    offset = 0;
    for (size_t axis = sizes_.size(); axis-- > 0;) {
      offset += element % sizes_[axis] * strides_[axis];
      element /= sizes_[axis];
    }
  }
  return static_cast<size_t>(byte_offset_ + offset * bytes_of(type_));
}

}  // namespace sinter
