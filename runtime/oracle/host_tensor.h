#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/shape.h"

namespace sinter {

/// Where the elements of a HostTensor lie in its storage.
struct HostLayout {
  Sizes strides{};          ///< In elements, >= 0; empty: dense row-major.
  int64_t byte_offset = 0;  ///< Of the first element from the storage's start; may be misaligned.
};

/// Alignment of the first byte of a HostTensor's storage, as cudaMalloc gives it (CUDA C++
/// programming guide, "Device memory accesses").
inline constexpr size_t kStorageAlignment = 256;

template <class T>
struct StorageAllocator {
  using value_type = T;
  StorageAllocator() = default;
  template <class U>
  explicit StorageAllocator(const StorageAllocator<U>&) {}
  T* allocate(size_t n) {
    return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{kStorageAlignment}));
  }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{kStorageAlignment}); }
  friend bool operator==(const StorageAllocator&, const StorageAllocator&) = default;
};
}  // namespace sinter

// Compiled once, with optimisation: tests are compiled without, where megabytes of workspace are
// destroyed a byte at a time.
extern template class std::vector<std::byte, sinter::StorageAllocator<std::byte>>;

namespace sinter {

/// What HostTensor::random draws. Equal specs give equal values on every platform.
struct RandomSpec {
  uint64_t seed = 1;
  double mean = 0.0;  ///< Of float types.
  double deviation =
      1.0;             ///< Standard deviation of float types; no value is beyond 2 sqrt(3) of it.
  int64_t low = -100;  ///< Lowest integer, clipped to the type's range.
  int64_t high = 100;  ///< Highest integer, inclusive, clipped to the type's range.
};

/// A tensor in host memory that owns its bytes. The storage ends exactly with the last element, so
/// that an address sanitizer or a bounds check sees any overrun, and every byte that belongs to no
/// element holds the poison pattern 0xff. Elements are numbered in row-major order of their
/// indices, whatever the strides.
///
/// Factories throw SinterException (InvalidArgument) for a negative size, stride or offset, for a
/// stride list of the wrong length and for sizes whose bytes do not fit 63 bits.
class HostTensor {
 public:
  HostTensor() = default;  ///< An f32 scalar without storage; only good for being assigned to.

  static HostTensor zeros(DType type, Sizes sizes, HostLayout layout = {});
  /// All bytes 0xff: NaN in every float type, -1 in signed integers, an invalid bool.
  static HostTensor poisoned(DType type, Sizes sizes, HostLayout layout = {});
  static HostTensor random(DType type, Sizes sizes, const RandomSpec& spec = {},
                           HostLayout layout = {});
  /// Elements from `values`, in row-major order, each rounded to `type`. Throws when their number
  /// differs from the tensor's.
  static HostTensor of(DType type, Sizes sizes, std::span<const double> values,
                       HostLayout layout = {});

  [[nodiscard]] DType type() const { return type_; }
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] const Sizes& strides() const { return strides_; }
  [[nodiscard]] int64_t count() const { return count_; }

  /// All bytes, including those before the first element and between elements.
  [[nodiscard]] std::span<std::byte> storage() { return storage_; }
  [[nodiscard]] std::span<const std::byte> storage() const { return storage_; }
  /// Address of the first element.
  [[nodiscard]] std::byte* data() { return storage_.data() + byte_offset_; }
  [[nodiscard]] const std::byte* data() const { return storage_.data() + byte_offset_; }

  /// Element as a double; i64 beyond 2^53 loses low bits.
  [[nodiscard]] double get(int64_t element) const { return decode(type_, bits(element)); }
  /// Element of an integer or bool tensor, exactly; a float is truncated.
  [[nodiscard]] int64_t get_integer(int64_t element) const;
  /// get() of as many elements as `out` has, from element `first` on, in less time.
  void read(int64_t first, std::span<double> out) const;
  /// Stored bytes of an element in the low bytes of the result.
  [[nodiscard]] uint64_t bits(int64_t element) const;
  void set(int64_t element, double value) { set_bits(element, encode(type_, value)); }
  /// set() of elements `first` and following, in less time. Calls for elements apart from each
  /// other may run at once unless elements overlap in memory.
  void write(int64_t first, std::span<const double> values);
  /// Stores an integer exactly, or saturated to the range of a narrower type.
  void set_integer(int64_t element, int64_t value);
  void set_bits(int64_t element, uint64_t bits);

  /// Row-major number of the element at `index`.
  [[nodiscard]] int64_t element_at(std::span<const int64_t> index) const;
  /// Index of a row-major element number.
  [[nodiscard]] Sizes index_of(int64_t element) const;

  /// True while no byte outside the elements has been written.
  [[nodiscard]] bool padding_intact() const;

 private:
  HostTensor(DType type, Sizes sizes, HostLayout layout);
  [[nodiscard]] size_t byte_position(int64_t element) const;
  void check_range(int64_t first, size_t count) const;
  void fill_with_bells(const RandomSpec& spec);

  DType type_ = DType::kF32;
  Sizes sizes_;
  Sizes strides_;
  int64_t count_ = 0;
  int64_t byte_offset_ = 0;
  bool dense_ = true;
  std::vector<std::byte, StorageAllocator<std::byte>> storage_;
};

}  // namespace sinter
