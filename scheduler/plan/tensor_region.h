#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "scheduler/plan/plan.h"

namespace sinter {

/// Elements of a tensor that a step reads or writes.
struct TensorRegion {
  StepId step;
  int64_t offset = 0;  ///< Bytes.
  int64_t element_bytes = 1;
  Sizes sizes;
  Sizes strides;  ///< In elements.

  [[nodiscard]] int64_t count() const { return element_count(sizes); }
  [[nodiscard]] bool is_same_place(const TensorRegion& other) const {
    return std::tie(offset, element_bytes, sizes, strides) ==
           std::tie(other.offset, other.element_bytes, other.sizes, other.strides);
  }
  /// Bytes from the start of the tensor to the end of the region's last element.
  [[nodiscard]] int64_t end() const {
    int64_t last = 0;
    for (size_t axis = 0; axis < sizes.size(); ++axis) last += (sizes[axis] - 1) * strides[axis];
    return offset + (last + 1) * element_bytes;
  }
  /// True if the strides guarantee that no two elements have the same address: each stride is at
  /// least the extent covered by the axes with smaller strides.
  [[nodiscard]] bool is_injective() const {
    std::vector<std::pair<int64_t, int64_t>> axes;  // Stride and size.
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] > 1) axes.emplace_back(strides[axis], sizes[axis]);
    }
    std::ranges::sort(axes);
    int64_t reached = 1;
    for (const auto& [stride, size] : axes) {
      if (stride < reached) return false;
      reached += stride * (size - 1);
    }
    return true;
  }
  /// Byte offsets of its elements.
  [[nodiscard]] std::vector<int64_t> addresses() const {
    std::vector<int64_t> out = {offset};
    if (count() == 0) return {};
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      std::vector<int64_t> next;
      next.reserve(out.size() * static_cast<size_t>(sizes[axis]));
      for (const int64_t base : out) {
        for (int64_t i = 0; i < sizes[axis]; ++i)
          next.push_back(base + i * strides[axis] * element_bytes);
      }
      out = std::move(next);
    }
    return out;
  }
};

}  // namespace sinter
