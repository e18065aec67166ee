#include "runtime/oracle/row_gatherer.h"

#include <algorithm>
#include <cstdlib>

namespace sinter {
namespace {

/// The axes of x that are, or are not, in `axes`.
ElementRuns<1> runs_over(const TensorView& x, std::span<const int> axes, bool in_axes,
                         int64_t offset) {
  TensorView window{.offset = offset};
  for (size_t axis = 0; axis < x.sizes.size(); ++axis) {
    const bool found = std::ranges::find(axes, static_cast<int>(axis)) != axes.end();
    if (found != in_axes) continue;
    window.sizes.push_back(x.sizes[axis]);
    window.strides.push_back(x.strides[axis]);
  }
  return {window.sizes, {&window}};
}

}  // namespace

ReductionRows::ReductionRows(const TensorView& x, std::span<const int> reduced)
    : x_(x),
      kept_(runs_over(x, reduced, false, x.offset)),
      inside_(runs_over(x, reduced, true, 0)),
      are_uniform_(std::ranges::all_of(reduced, [&x](int axis) {
        const auto at = static_cast<size_t>(axis);
        return x.sizes[at] == 1 || x.strides[at] == 0;
      })) {
  if (kept_.count() < 2 || std::abs(kept_.step(0)) >= std::abs(inside_.step(0))) return;
  // Two cache lines of neighbours; fewer of long rows, so that a block stays within a few MiB.
  constexpr int64_t kNeighbours = 16;
  constexpr int64_t kFewestNeighbours = 4;
  constexpr int64_t kElements = int64_t{1} << 18;
  block_ = std::clamp(kElements / std::max<int64_t>(length(), 1), kFewestNeighbours, kNeighbours);
}

RowBlock::RowBlock(const ReductionRows& rows) : rows_(rows) {
  // A multiple of every vector's length, and a cache line more, so that rows whose length is a
  // power of two do not all begin in the same set of a cache.
  constexpr int64_t kLine = 8;
  pitch_ = (rows.length() + kLine - 1) / kLine * kLine + kLine;
  const auto elements = static_cast<size_t>(pitch_ * rows.block());
  const bool real = is_float(rows.x_.type);
  real_.resize(real ? elements : 0);
  integer_.resize(real ? 0 : elements);
  bounds_.resize(rows.x_.exact() ? 0 : elements);
}

void RowBlock::load(int64_t first_row, int64_t count) {
  starts_.clear();
  rows_.kept_.for_each(first_row, first_row + count, [this](const ElementRun<1>& run) {
    for (int64_t i = 0; i < run.count; ++i) starts_.push_back(run.position[0] + i * run.step[0]);
  });
  gather(rows_.x_.elements->real, real_);
  gather(rows_.x_.elements->integer, integer_);
  gather(rows_.x_.elements->bound, bounds_);
}

template <class T>
void RowBlock::gather(const ZeroedArray<T>& from, std::vector<T>& to) const {
  if (to.empty()) return;
  rows_.inside_.for_each(0, rows_.length(), [&](const ElementRun<1>& run) {
    if (starts_.size() == 1) {
      const T* source = from.data() + starts_[0] + run.position[0];
      T* target = to.data() + run.first;
      for (int64_t i = 0; i < run.count; ++i) target[i] = source[i * run.step[0]];
      return;
    }
    for (int64_t i = 0; i < run.count; ++i) {
      const T* source = from.data() + run.position[0] + i * run.step[0];
      T* target = to.data() + run.first + i;
      for (const int64_t start : starts_) {
        *target = source[start];
        target += pitch_;
      }
    }
  });
}

}  // namespace sinter
