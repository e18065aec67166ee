#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/decision.h"

namespace sinter {

/// One loop of the iteration space. Axes that iterate together in all values form one class.
/// Adjacent classes that every tensor walks as one merge into one dimension.
struct Dimension {
  int64_t size = 1;
  bool reduced = false;  ///< An inner reduction removes it: it is one of the columns.
  friend bool operator==(const Dimension&, const Dimension&) = default;
};

/// How a value in memory is addressed from the loops: element offset + sum of coordinate * stride.
struct TensorAccess {
  ValueId value;   ///< An input, a view of an input, or an output.
  ValueId tensor;  ///< The input or output that holds the memory.
  int64_t offset = 0;
  std::vector<int64_t> strides;  ///< Per dimension of the space; 0 where the value does not vary.
  int64_t element_bytes = 1;
  int64_t alignment = 0;  ///< Guaranteed alignment of the tensor's address, in bytes.
  friend bool operator==(const TensorAccess&, const TensorAccess&) = default;
};

/// How a `take` along an axis that no loop walks addresses an element: the address of `access`,
/// which does not move along the axis, plus index * stride.
struct Gather {
  TensorAccess access;
  int64_t stride = 0;  ///< Elements from one index to the next.
  int64_t size = 0;    ///< Elements of the axis; an index out of range yields 0.
  friend bool operator==(const Gather&, const Gather&) = default;
};

/// The contraction of a segment. Its result is computed before everything else of a tile, and is
/// never in memory. The operand that lacks the columns is the one of the rows, whichever side of
/// the op it is on.
struct ContractedSpace {
  OpId op;
  ValueId value;  ///< The result, which has all dimensions of the space.
  /// Sizes of the loops that are contracted, from the outermost to the innermost.
  std::vector<int64_t> sizes;
  /// The operands in memory. Strides: for each dimension of the space, then for each contracted
  /// loop.
  TensorAccess rows, columns;
  /// Leading dimensions of the rows along which the operand of the columns also varies: each of
  /// their elements is a contraction of its own.
  size_t batch_dimensions = 0;
  [[nodiscard]] int64_t contracted() const;  ///< Product of `sizes`.
  friend bool operator==(const ContractedSpace&, const ContractedSpace&) = default;
};

/// The kinds of dimensions along which a value varies.
struct Dependence {
  bool rows = false;     ///< Along a dimension of the rows.
  bool columns = false;  ///< Along a dimension of the columns.
  friend bool operator==(const Dependence&, const Dependence&) = default;
};

/// What an outer reduction yields: a value for each column, or one total.
enum class OuterReduction : uint8_t {
  kNone,       ///< No outer reduction.
  kColumns,    ///< Removes the rows.
  kElements,   ///< Removes the rows and the columns.
  kRowValues,  ///< Removes the rows of values that have one element a row.
};

/// The loops of a segment and how they address its tensors: first the row dimensions, then the
/// column dimensions, each from the outermost to the innermost. Of a contraction, the columns are
/// the axes that only one operand has, the one of the innermost axis where both have some, or those
/// of them that reductions remove; all other axes of its result are rows. Inner reductions remove
/// the columns. Outer reductions remove the rows or, next to other reductions, all dimensions. A
/// segment may have both kinds. Without inner reductions the columns are the dimensions that outer
/// ones keep. Without any reduction all dimensions are columns, so all elements form one row.
struct IterationSpace {
  std::vector<Dimension> dimensions;
  size_t row_dimensions = 0;          ///< Number of leading dimensions that are rows.
  int64_t rows = 1;                   ///< Product of the rows' sizes.
  int64_t columns = 1;                ///< Product of the columns' sizes.
  std::vector<TensorAccess> inputs;   ///< Values read from memory: inputs and views of them.
  std::vector<TensorAccess> outputs;  ///< In the order of the fusion's outputs.
  IdMap<ValueId, Dependence> dependence;
  /// For each output, the dimensions that its shape covers. A row output is stored once per row.
  std::vector<Dependence> output_coverage;
  /// For an iota: its coordinate = sum of coordinate * weight over the dimensions.
  IdMap<ValueId, std::vector<int64_t>> iota_weights;
  /// For a `take` result: weights as above for the axis it indexes, so that the index can replace a
  /// column coordinate.
  IdMap<ValueId, std::vector<int64_t>> take_weights;
  /// By `take` result, in segments without reductions, where each element has an index of its own.
  std::map<ValueId, Gather> gathers{};
  /// True for results of outer reductions and values computed from them: known only after all rows.
  IdMap<ValueId, uint8_t> after_rows;
  IdMap<ValueId, OuterReduction> outer;  ///< By an outer reduction's first result.
  std::optional<ContractedSpace> contraction{};
  IdMap<ValueId, uint32_t> input_places;  ///< Position in `inputs` plus 1; 0: not an input.

  /// The access of a value read from memory; null for a computed value.
  [[nodiscard]] const TensorAccess* find_input(ValueId value) const;
  /// Sizes of the dimensions and, behind them, of the contracted loops: an operand of the
  /// contraction has a stride for each.
  [[nodiscard]] std::vector<int64_t> loop_sizes() const;
  friend bool operator==(const IterationSpace&, const IterationSpace&) = default;
};

/// Derives the iteration space of a specialised fusion (all extents constant). The failing side
/// says what no family can iterate over: a reshape that does not split evenly; reductions over axes
/// that are neither all rows, all columns nor everything; a row that needs the result of an outer
/// reduction; a value that needs the results of both an outer and an inner reduction; a slice of a
/// computed value.
///
/// With reductions, a gather must index the columns that inner reductions remove or outer ones
/// keep, and all columns of its operand must be available: read, or computed within the row.
/// Without reductions, a gather may index any axis of an operand that is read.
///
/// The operands of a contraction must be in memory, each of their axes with a single stride. Beside
/// a contraction there are no reductions.
tl::expected<IterationSpace, Rejection> iteration_space(const Fusion& fusion);

}  // namespace sinter
