#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/decision.h"

namespace sinter {

/// One loop of the iteration space. Axes that iterate together in all values are one class;
/// adjacent classes that every tensor walks as one merge into one dimension.
struct Dimension {
  int64_t size = 1;
  bool reduced = false;  ///< By inner reductions: one of the columns.
  friend bool operator==(const Dimension&, const Dimension&) = default;
};

/// How a value that lives in memory is addressed from the loops: element offset + sum of coordinate
/// * stride.
struct TensorAccess {
  ValueId value;   ///< An input, a view of an input, or an output.
  ValueId tensor;  ///< The input or output that holds the memory.
  int64_t offset = 0;
  std::vector<int64_t> strides;  ///< Per dimension of the space; 0 where the value does not vary.
  int64_t element_bytes = 1;
  int64_t alignment = 0;  ///< Bytes that the tensor's address is promised to be a multiple of.
  friend bool operator==(const TensorAccess&, const TensorAccess&) = default;
};

/// How a `take` that picks along an axis no loop walks finds an element: that of `access`, which
/// does not move along the axis, plus index * stride.
struct Gather {
  TensorAccess access;
  int64_t stride = 0;  ///< Elements from one index to the next.
  int64_t size = 0;    ///< Elements of the axis; an index outside of them gives 0.
  friend bool operator==(const Gather&, const Gather&) = default;
};

/// Where a value varies.
struct Dependence {
  bool rows = false;     ///< Along a dimension of the rows.
  bool columns = false;  ///< Along a dimension of the columns.
  friend bool operator==(const Dependence&, const Dependence&) = default;
};

/// What an outer reduction gives: a value for each column, or one total.
enum class OuterReduction : uint8_t {
  kNone,       ///< It is none.
  kColumns,    ///< Removes the rows.
  kElements,   ///< Removes the rows and the columns.
  kRowValues,  ///< Removes the rows of values that have one element a row.
};

/// The loops of a segment and how its tensors are walked: first the dimensions of the rows, then
/// those of the columns, each from the outermost to the innermost. Inner reductions remove the
/// columns, outer ones the rows, or beside others everything; a segment may have both. Without
/// inner reductions the columns are what outer ones keep; without any, all dimensions are columns,
/// so that the elements are one row.
struct IterationSpace {
  std::vector<Dimension> dimensions;
  size_t row_dimensions = 0;          ///< The first so many are rows.
  int64_t rows = 1;                   ///< Product of the rows' sizes.
  int64_t columns = 1;                ///< Product of the columns' sizes.
  std::vector<TensorAccess> inputs;   ///< Values read from memory: inputs and views of them.
  std::vector<TensorAccess> outputs;  ///< In the order of the fusion's outputs.
  IdMap<ValueId, Dependence> dependence;
  /// For outputs: whether the shape itself covers the dimensions. A row output is stored once per
  /// row.
  std::vector<Dependence> output_coverage;
  /// Dimension that an iota counts along: coordinate = sum of coordinate * weight over the
  /// dimensions.
  IdMap<ValueId, std::vector<int64_t>> iota_weights;
  /// For a `take` result: weights as above for the axis it indexes, so that a column coordinate can
  /// be replaced by the index.
  IdMap<ValueId, std::vector<int64_t>> take_weights;
  /// By `take` result, in segments without reductions: each element has an index of its own.
  std::map<ValueId, Gather> gathers{};
  /// Results of outer reductions, and values computed from them: known once all rows are done.
  IdMap<ValueId, uint8_t> after_rows;
  IdMap<ValueId, OuterReduction> outer;   ///< By an outer reduction's first result.
  IdMap<ValueId, uint32_t> input_places;  ///< In `inputs`, from 1 on; 0: it is none of them.

  /// Null for a value that is computed.
  [[nodiscard]] const TensorAccess* find_input(ValueId value) const;
  friend bool operator==(const IterationSpace&, const IterationSpace&) = default;
};

/// Derives the iteration space of a specialised fusion (all extents constant). The failing side
/// says what no family can walk: a reshape that does not split evenly, reductions over axes that
/// are neither all rows, all columns nor everything, a row that needs the result of an outer
/// reduction, what follows from one and needs that of an inner one too, a slice of a computed
/// value. A gather is walked where it picks along the columns that inner reductions remove, or
/// outer ones keep, and x is known for all of these at once: it is read, or computed within the
/// row. Without reductions it is walked along any axis of what is read.
tl::expected<IterationSpace, Rejection> iteration_space(const Fusion& fusion);

}  // namespace sinter
