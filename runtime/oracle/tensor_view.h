#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fusion_ir/dtype.h"
#include "fusion_ir/shape.h"
#include "runtime/oracle/bounded_integer.h"
#include "runtime/oracle/bounded_real.h"

namespace sinter {

/// Elements and error bounds of one value of the graph: `real` for float types, `integer` for the
/// others. `bound` is empty while every element is exact.
struct BoundedElements {
  std::vector<double> real{};
  std::vector<int64_t> integer{};
  std::vector<double> bound{};
};

/// A value of the graph during evaluation: a strided window on elements that views may share, so
/// that broadcast, permute and slice copy nothing. Strides in elements; a broadcast axis has 0.
struct TensorView {
  DType type = DType::kF32;
  Sizes sizes{};
  Sizes strides{};
  int64_t offset = 0;
  std::shared_ptr<const BoundedElements> elements{};

  [[nodiscard]] double bound(int64_t position) const {
    return elements->bound.empty() ? 0.0 : elements->bound[static_cast<size_t>(position)];
  }
  [[nodiscard]] BoundedReal real(int64_t position) const {
    return {elements->real[static_cast<size_t>(position)], bound(position)};
  }
  [[nodiscard]] BoundedInteger integer(int64_t position) const {
    return {elements->integer[static_cast<size_t>(position)], bound(position)};
  }
};

/// Dense view that owns `elements`.
TensorView dense_view(DType type, Sizes sizes, BoundedElements elements);

/// Sum of index times stride for every index of `sizes`, in row-major order.
std::vector<int64_t> offsets_of(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// Collects the results of one op in row-major order.
class ElementWriter {
 public:
  ElementWriter(DType type, Sizes sizes);
  void push(BoundedReal x) {
    elements_.real.push_back(x.value);
    push_bound(x.bound);
  }
  void push(BoundedInteger x) {
    elements_.integer.push_back(x.value);
    push_bound(x.bound);
  }
  [[nodiscard]] TensorView finish() &&;

 private:
  void push_bound(double bound) {
    inexact_ |= bound != 0.0;
    elements_.bound.push_back(bound);
  }
  DType type_;
  Sizes sizes_;
  BoundedElements elements_;
  bool inexact_ = false;
};

/// Calls body(positions) for every element of `sizes` in row-major order, where positions[i] is the
/// element's place in views[i], which must have these sizes.
template <size_t N, class Body>
void for_each_element(std::span<const int64_t> sizes, const std::array<const TensorView*, N>& views,
                      Body body) {
  if (element_count(sizes) == 0) return;
  std::array<int64_t, N> positions{};
  for (size_t i = 0; i < N; ++i) positions[i] = views[i]->offset;
  const size_t rank = sizes.size();
  if (rank == 0) {
    body(positions);
    return;
  }
  Sizes index(rank, 0);
  for (;;) {
    body(positions);
    size_t axis = rank - 1;
    for (;;) {
      for (size_t i = 0; i < N; ++i) positions[i] += views[i]->strides[axis];
      if (++index[axis] < sizes[axis]) break;
      for (size_t i = 0; i < N; ++i) positions[i] -= views[i]->strides[axis] * sizes[axis];
      index[axis] = 0;
      if (axis-- == 0) return;
    }
  }
}

}  // namespace sinter
