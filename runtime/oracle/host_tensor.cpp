#include "runtime/oracle/host_tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "fusion_ir/error.h"
#include "runtime/compile/parallel.h"
#include "runtime/oracle/integer_range.h"

template class std::vector<std::byte, sinter::StorageAllocator<std::byte>>;

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
double unit_interval(uint64_t draw) { return static_cast<double>(draw >> 11U) * 0x1p-53; }

/// Sum of four uniforms (Irwin-Hall), scaled to variance 1: bell-shaped and bounded by 2 sqrt(3).
constexpr size_t kDrawsPerBell = 4;
double bell(const uint64_t* draws) {
  double sum = 0.0;
  for (size_t i = 0; i < kDrawsPerBell; ++i) sum += unit_interval(draws[i]);
  return (sum - 2.0) * std::sqrt(3.0);
}

/// Converts `values` to T and stores them from `to` on, which may be misaligned for T.
template <class T, class Convert>
void store_all(std::span<const double> values, std::byte* to, Convert convert) {
  for (const double value : values) {
    const T stored = convert(value);
    std::memcpy(to, &stored, sizeof(T));
    to += sizeof(T);
  }
}

template <class T, class Convert>
void load_all(const std::byte* from, std::span<double> out, Convert convert) {
  for (double& value : out) {
    T stored{};
    std::memcpy(&stored, from, sizeof(T));
    value = convert(stored);
    from += sizeof(T);
  }
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
  if (tensor.dense_) {
    std::fill(tensor.storage_.begin() + tensor.byte_offset_, tensor.storage_.end(), std::byte{0});
    return tensor;
  }
  for (int64_t i = 0; i < tensor.count_; ++i) tensor.set_bits(i, 0);
  return tensor;
}

HostTensor HostTensor::poisoned(DType type, Sizes sizes, HostLayout layout) {
  return {type, std::move(sizes), std::move(layout)};
}

HostTensor HostTensor::random(DType type, Sizes sizes, const RandomSpec& spec, HostLayout layout) {
  HostTensor tensor(type, std::move(sizes), std::move(layout));
  if (is_float(type)) {
    tensor.fill_with_bells(spec);
    return tensor;
  }
  std::mt19937_64 generator(spec.seed);
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
  tensor.write(0, values);
  return tensor;
}

/// Draws are made one after the other, since each depends on those before; what becomes of them is
/// worked out by several threads.
void HostTensor::fill_with_bells(const RandomSpec& spec) {
  std::mt19937_64 generator(spec.seed);
  constexpr int64_t kElementsPerRound = int64_t{1} << 18;
  constexpr int64_t kElementsPerRange = int64_t{1} << 14;
  std::vector<uint64_t> draws(static_cast<size_t>(std::min(count_, kElementsPerRound)) *
                              kDrawsPerBell);
  for (int64_t first = 0; first < count_; first += kElementsPerRound) {
    const int64_t count = std::min(kElementsPerRound, count_ - first);
    const size_t needed = static_cast<size_t>(count) * kDrawsPerBell;
    for (size_t i = 0; i < needed; ++i) draws[i] = generator();
    // Strides may make elements overlap, and the last of those in one place must win.
    for_each_range(count, kElementsPerRange, dense_ ? 0 : 1, [&](int64_t begin, int64_t end) {
      std::array<double, 512> values;
      while (begin < end) {
        const auto size = std::min(values.size(), static_cast<size_t>(end - begin));
        for (size_t i = 0; i < size; ++i) {
          const uint64_t* own = &draws[(static_cast<size_t>(begin) + i) * kDrawsPerBell];
          values[i] = spec.mean + spec.deviation * bell(own);
        }
        write(first + begin, std::span(values).first(size));
        begin += static_cast<int64_t>(size);
      }
    });
  }
}

void HostTensor::check_range(int64_t first, size_t count) const {
  SINTER_CHECK(first >= 0 && first + static_cast<int64_t>(count) <= count_,
               "elements {} to {} of {}", first, first + static_cast<int64_t>(count), count_);
}

void HostTensor::read(int64_t first, std::span<double> out) const {
  check_range(first, out.size());
  const std::byte* from = dense_ ? data() + first * bytes_of(type_) : nullptr;
  if (dense_ && type_ == DType::kF64) {
    load_all<double>(from, out, [](double stored) { return stored; });
  } else if (dense_ && type_ == DType::kF32) {
    load_all<float>(from, out, [](float stored) { return static_cast<double>(stored); });
  } else if (dense_ && type_ == DType::kBF16) {
    load_all<uint16_t>(from, out, [](uint16_t stored) {
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(stored) << 16U));
    });
  } else {
    for (double& value : out) value = get(first++);
  }
}

void HostTensor::write(int64_t first, std::span<const double> values) {
  check_range(first, values.size());
  std::byte* to = dense_ ? data() + first * bytes_of(type_) : nullptr;
  if (dense_ && type_ == DType::kF64) {
    store_all<double>(values, to, [](double value) { return value; });
  } else if (dense_ && type_ == DType::kF32) {
    store_all<float>(values, to, [](double value) { return static_cast<float>(value); });
  } else if (dense_ && type_ == DType::kBF16) {
    store_all<uint16_t>(values, to, [](double value) {
      return static_cast<uint16_t>(encode(DType::kBF16, value));
    });
  } else {
    for (const double value : values) set(first++, value);
  }
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
