#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// The graph that `rewrite` is making, as its callback sees it. Every id the callback receives or
/// returns, except the OpId, names something of `graph()`.
class Rewriter {
 public:
  explicit Rewriter(const Fusion& source);

  [[nodiscard]] const Fusion& source() const { return source_; }
  /// The graph made so far. Call it again after appending: until the first change it is the source
  /// itself, and appending moves its tables.
  [[nodiscard]] const Fusion& graph() const { return changed_ ? made_ : source_; }
  /// What a value of the source became; it must stand before the op now visited.
  [[nodiscard]] ValueId mapped(ValueId source_value) const;

  /// Appends an op; hints as in infer_results. Operands that do not fit are a defect of the pass
  /// and throw an InternalError.
  std::vector<ValueId> append(OpKind kind, std::vector<ValueId> operands,
                              DType type_hint = DType::kF32, Shape shape_hint = {});
  ValueId pointwise(PointwiseFn fn, std::vector<ValueId> operands);
  ValueId cast(ValueId x, DType type);                               ///< x if it has that type.
  ValueId broadcast(ValueId x, Shape shape, std::vector<int> axes);  ///< x if nothing changes.
  /// A constant of a type in every element of a shape. `value` is used as it is, not rounded.
  ValueId splat(ConstantOp value, DType type, const Shape& shape);

 private:
  friend std::optional<Fusion> rewrite(const Fusion&,
                                       const std::function<std::optional<std::vector<ValueId>>(
                                           Rewriter&, OpId, std::span<const ValueId>)>&);

  std::vector<ValueId> push(Op op, std::vector<Value> results);
  void start_copy();
  void keep(OpId op, std::vector<ValueId> operands);
  void replace(OpId op, const std::vector<ValueId>& replacements);
  std::optional<Fusion> finish();

  const Fusion& source_;
  Fusion made_;
  IdMap<ValueId, ValueId> map_;  ///< Written for values whose id changed.
  uint32_t visited_ = 0;         ///< Ops of the source visited so far.
  bool changed_ = false;
};

/// Decides about one op of the source; `operands` are its operands in the new graph. Returns the
/// values that take the place of its results, of the same types and shapes, or nothing to keep it.
using RewriteFn = std::function<std::optional<std::vector<ValueId>>(
    Rewriter& rewriter, OpId op, std::span<const ValueId> operands)>;

/// Rebuilds a graph op by op, in order, and drops what no output needs. Symbols and inputs stay, in
/// their order, used or not. A replacement without a name takes the name of what it replaces. An
/// output that became an input, or equal to an earlier output, is copied by a broadcast to its own
/// shape, so the outputs keep their number and order. Nothing if nothing changes and nothing is
/// dead.
std::optional<Fusion> rewrite(const Fusion& fusion, const RewriteFn& decide);

}  // namespace sinter
