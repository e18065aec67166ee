#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/oracle/bounded_reduction.h"
#include "runtime/oracle/element_runs.h"

namespace sinter {

/// Splits the axes of a reduction's operand into kept and reduced ones: each kept index has a row
/// of elements that are reduced to one. `x` must outlive it.
class ReductionRows {
 public:
  ReductionRows(const TensorView& x, std::span<const int> reduced);

  [[nodiscard]] int64_t count() const { return kept_.count(); }
  [[nodiscard]] int64_t length() const { return inside_.count(); }
  /// Rows that are best gathered together: where neighbouring rows lie closer than a row's
  /// elements, one by one would use one number of every cache line.
  [[nodiscard]] int64_t block() const { return block_; }
  /// Whether the elements of a row are one, as where they are a broadcast.
  [[nodiscard]] bool are_uniform() const { return are_uniform_; }

 private:
  friend class RowBlock;
  const TensorView& x_;
  ElementRuns<1> kept_;    ///< First elements of the rows.
  ElementRuns<1> inside_;  ///< A row's elements from its first.
  int64_t block_ = 1;
  bool are_uniform_ = false;
};

/// Gathered copies of up to `rows.block()` neighbouring rows; one per thread. A row is aligned as
/// allocated memory is, so that its sums are vectorised alike wherever it lies in the tensor.
class RowBlock {
 public:
  explicit RowBlock(const ReductionRows& rows);
  void load(int64_t first_row, int64_t count);
  /// Row `row` of those loaded.
  [[nodiscard]] RealRow real_row(int64_t row) const {
    RealRow out{of(real_, row), of(bounds_, row)};
    out.is_uniform = rows_.are_uniform();
    return out;
  }
  [[nodiscard]] IntegerRow integer_row(int64_t row) const {
    return {of(integer_, row), of(bounds_, row)};
  }

 private:
  template <class T>
  void gather(const ZeroedArray<T>& from, std::vector<T>& to) const;
  template <class T>
  [[nodiscard]] std::span<const T> of(const std::vector<T>& all, int64_t row) const {
    if (all.empty()) return {};
    return {all.data() + row * pitch_, static_cast<size_t>(rows_.length())};
  }

  const ReductionRows& rows_;
  int64_t pitch_;
  std::vector<int64_t> starts_;
  std::vector<double> real_;
  std::vector<int64_t> integer_;
  std::vector<double> bounds_;
};

}  // namespace sinter
