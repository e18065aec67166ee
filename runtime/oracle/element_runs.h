#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/oracle/tensor_view.h"

namespace sinter {

/// Consecutive elements that lie at even distances in each of N views.
template <size_t N>
struct ElementRun {
  int64_t first = 0;  ///< Row-major number of the first element.
  int64_t count = 0;
  std::array<int64_t, N> position{};  ///< Place of the first element in each view.
  std::array<int64_t, N> step{};      ///< From an element to the next one.
};

/// The places of all elements of `sizes` in N views, which must have these sizes, as runs that are
/// as long as the views' strides allow. Uses nothing of the views after construction.
template <size_t N>
class ElementRuns {
 public:
  ElementRuns(std::span<const int64_t> sizes, const std::array<const TensorView*, N>& views)
      : count_(element_count(sizes)) {
    for (size_t i = 0; i < N; ++i) offset_[i] = views[i]->offset;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] == 1) continue;
      Axis next{.size = sizes[axis]};
      for (size_t i = 0; i < N; ++i) next.step[i] = views[i]->strides[axis];
      if (!axes_.empty() && axes_.back().continues_in(next)) {
        next.size *= axes_.back().size;
        axes_.back() = next;
      } else {
        axes_.push_back(next);
      }
    }
    if (axes_.empty()) axes_.push_back({.size = 1});
  }

  [[nodiscard]] int64_t count() const { return count_; }
  /// Distance in view `i` of an element from the next, within a run.
  [[nodiscard]] int64_t step(size_t i) const { return axes_.back().step[i]; }

  /// Calls body(run) for elements `begin` to `end`, in order.
  template <class Body>
  void for_each(int64_t begin, int64_t end, Body body) const {
    if (begin >= end || count_ == 0) return;
    ElementRun<N> run{.first = begin, .position = offset_, .step = axes_.back().step};
    std::vector<int64_t> index(axes_.size());
    for (size_t axis = axes_.size(), rest = static_cast<size_t>(begin); axis-- > 0;) {
      const auto size = static_cast<size_t>(axes_[axis].size);
      index[axis] = static_cast<int64_t>(rest % size);
      rest /= size;
      move(run, axis, index[axis]);
    }
    for (;;) {
      run.count = std::min(axes_.back().size - index.back(), end - run.first);
      body(static_cast<const ElementRun<N>&>(run));
      run.first += run.count;
      if (run.first >= end) return;
      size_t axis = axes_.size() - 1;
      move(run, axis, -index[axis]);
      index[axis] = 0;
      for (;;) {  // `end` is within the elements, so an outer axis has one more.
        --axis;
        move(run, axis, 1);
        if (++index[axis] < axes_[axis].size) break;
        move(run, axis, -index[axis]);
        index[axis] = 0;
      }
    }
  }

 private:
  struct Axis {
    int64_t size = 1;
    std::array<int64_t, N> step{};
    /// True if both are one axis: the last of `inner` is followed by the first of the next.
    [[nodiscard]] bool continues_in(const Axis& inner) const {
      for (size_t i = 0; i < N; ++i) {
        if (step[i] != inner.step[i] * inner.size) return false;
      }
      return true;
    }
  };
  void move(ElementRun<N>& run, size_t axis, int64_t elements) const {
    for (size_t i = 0; i < N; ++i) run.position[i] += axes_[axis].step[i] * elements;
  }

  int64_t count_;
  std::array<int64_t, N> offset_{};
  std::vector<Axis> axes_;  ///< From the outermost; those of size 1 left out, neighbours merged.
};

}  // namespace sinter
