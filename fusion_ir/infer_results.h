#pragma once

#include <span>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Result types and shapes of an op over existing values: the one place where the typing and shape
/// rules stand. `type_hint` and `shape_hint` supply what operands cannot: input, constant, cast
/// (type), iota, broadcast, reshape. Errors (InvalidFusion): an operand that does not exist, a
/// wrong number of operands, an attribute, type or shape that the op does not admit.
Result<std::vector<ResultType>> infer_results(const Fusion& fusion, const OpKind& kind,
                                              std::span<const ValueId> operands, DType type_hint,
                                              const Shape& shape_hint);

/// Nothing if an output may lie so. Errors (InvalidFusion): strides that are not one per axis or
/// not extents of this fusion, an alignment that is no power of two or less than an element, an
/// alias that is no input or differs from the output in type, shape, strides or alignment.
Result<void> check_layout(const Fusion& fusion, ValueId output, const OutputLayout& layout);

}  // namespace sinter
