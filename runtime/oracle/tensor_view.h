#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "fusion_ir/dtype.h"
#include "fusion_ir/shape.h"
#include "runtime/oracle/bounded_integer.h"
#include "runtime/oracle/bounded_real.h"

namespace sinter {

/// A fixed number of elements, zero at first. Large ones come from the system as pages that take
/// memory only once written, by the thread that writes them.
template <class T>
class ZeroedArray {
 public:
  ZeroedArray() = default;
  explicit ZeroedArray(size_t size)
      : size_(size), data_(static_cast<T*>(std::calloc(size, sizeof(T)))) {
    if (size > 0 && data_ == nullptr) throw std::bad_alloc();
  }
  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  size_t size_ = 0;
  std::unique_ptr<T, Free> data_;
};

/// Elements and error bounds of one value of the graph: `real` for float types, `integer` for the
/// others. `bound` is empty while every element is exact.
struct BoundedElements {
  ZeroedArray<double> real{};
  ZeroedArray<int64_t> integer{};
  ZeroedArray<double> bound{};
};

/// A value of the graph during evaluation: a strided window on elements that views may share, so
/// that broadcast, permute and slice copy nothing. Strides in elements; a broadcast axis has 0.
struct TensorView {
  DType type = DType::kF32;
  Sizes sizes{};
  Sizes strides{};
  int64_t offset = 0;
  std::shared_ptr<const BoundedElements> elements{};

  [[nodiscard]] bool exact() const { return elements->bound.empty(); }
  [[nodiscard]] double bound(int64_t position) const {
    return exact() ? 0.0 : elements->bound[static_cast<size_t>(position)];
  }
  [[nodiscard]] BoundedReal real(int64_t position) const {
    return {elements->real[static_cast<size_t>(position)], bound(position)};
  }
  [[nodiscard]] BoundedInteger integer(int64_t position) const {
    return {elements->integer[static_cast<size_t>(position)], bound(position)};
  }
  /// Every `step`-th real from `position` on.
  [[nodiscard]] RealRun real_run(int64_t position, int64_t step) const {
    return {elements->real.data() + position, exact() ? nullptr : elements->bound.data() + position,
            step};
  }
};

/// Dense view that owns `elements`.
TensorView dense_view(DType type, Sizes sizes, BoundedElements elements);

}  // namespace sinter
