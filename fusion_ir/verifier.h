#pragma once

#include <string>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// One broken invariant. `op` and `value` name what it concerns; both invalid when it concerns the
/// fusion as a whole.
struct Violation {
  OpId op{};
  ValueId value{};
  std::string message{};
  friend bool operator==(const Violation&, const Violation&) = default;
};

/// Every broken invariant, in table order; empty for a sound fusion. Never throws or reads out of
/// bounds, however damaged the tables are. The invariants:
///
/// Symbols
///   - a name is an identifier and stands once
///   - hint >= 0, divisible_by >= 1, and the hint is a multiple of it
/// Ops
///   - operands exist and come from earlier ops (topological order)
///   - results are the next values in numbering order, and each names the op and its place in it
///   - every value is the result of one op
///   - element types and functions are among those Sinter knows
///   - results have the types and shapes that infer_results gives; this covers operand counts,
///     types and shapes, attributes (axes, order, slice bounds, strides, alignment), ranks up to
///     kMaxRank, extents >= 0 and symbols that exist, and constants their type can hold
/// Inputs and outputs
///   - `inputs` lists the results of the input ops, in op order
///   - there is at least one output; each exists, is not an input and is listed once
///   - there are no layouts, or one for each output that check_layout admits
std::vector<Violation> verify(const Fusion& fusion);

/// "%op3 %v4: message", one violation a line.
std::string text_of(const std::vector<Violation>& violations);

}  // namespace sinter
