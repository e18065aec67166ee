#include "fusion_ir/passes/expand_contractions.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "fusion_ir/match.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

/// One contraction of the graph that a rewriter makes.
class Expansion {
 public:
  Expansion(Rewriter& rewriter, const ContractOp& op, std::span<const ValueId> operands)
      : rewriter_(rewriter),
        op_(op),
        type_(compute_type(rewriter.graph().values[operands[0]].type)),
        space_(space_of(op, rewriter.graph().values[operands[0]].shape,
                        rewriter.graph().values[operands[1]].shape)) {
    left_ = in_space(operands[0], op.left);
    right_ = in_space(operands[1], op.right);
  }

  ValueId run() {
    switch (op_.fn) {
      case ContractFn::kSum:
        return reduce(ReduceFn::kSum, rewriter_.pointwise(PointwiseFn::kMul, {left_, right_}));
      case ContractFn::kMax:
        return reduce(ReduceFn::kMax, rewriter_.pointwise(PointwiseFn::kAdd, {left_, right_}));
      case ContractFn::kLogSumExp:
        return logsumexp(rewriter_.pointwise(PointwiseFn::kAdd, {left_, right_}));
    }
    unreachable();
  }

 private:
  /// An operand in every element of the space.
  ValueId in_space(ValueId operand, const std::vector<int>& axes) {
    std::vector<int> order(axes.size());  // Of the operand's axes, as they stand in the space.
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int axis) { return axes[static_cast<size_t>(axis)]; });
    std::vector<int> places;
    for (const int axis : order) places.push_back(axes[static_cast<size_t>(axis)]);
    ValueId x = rewriter_.cast(operand, type_);
    if (!std::ranges::is_sorted(order))
      x = rewriter_.append(PermuteOp{.order = std::move(order)}, {x}).front();
    return rewriter_.broadcast(x, space_, std::move(places));
  }

  ValueId reduce(ReduceFn fn, ValueId x) {
    return rewriter_.append(ReduceOp{.fn = fn, .axes = op_.reduced}, {x}).front();
  }

  ValueId logsumexp(ValueId sums) {
    const ValueId most = reduce(ReduceFn::kMax, sums);
    const Shape shape = rewriter_.graph().values[most].shape;
    const ValueId finite = rewriter_.pointwise(PointwiseFn::kIsFinite, {most});
    const ValueId zero = rewriter_.splat(ConstantOp{}, type_, shape);
    const ValueId shift = rewriter_.pointwise(PointwiseFn::kSelect, {finite, most, zero});
    const ValueId in_rows = rewriter_.broadcast(shift, space_, all_axes(shape.size()));
    const ValueId below = rewriter_.pointwise(PointwiseFn::kSub, {sums, in_rows});
    const ValueId sum = reduce(ReduceFn::kSum, rewriter_.pointwise(PointwiseFn::kExp, {below}));
    return rewriter_.pointwise(PointwiseFn::kAdd,
                               {rewriter_.pointwise(PointwiseFn::kLog, {sum}), shift});
  }

  Rewriter& rewriter_;
  const ContractOp& op_;
  DType type_;            ///< Of the result, in which products and sums are computed.
  Shape space_;           ///< Axes of the result, then the reduced ones.
  ValueId left_, right_;  ///< The operands in every element of the space.
};

}  // namespace

std::optional<Fusion> expand_contractions(const Fusion& fusion) {
  return expand_contractions(fusion, [](OpId) { return true; });
}

std::optional<Fusion> expand_contractions(const Fusion& fusion,
                                          const std::function<bool(OpId)>& is_expanded) {
  return rewrite(fusion,
                 [&](Rewriter& rewriter, OpId id,
                     std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   const auto* op = std::get_if<ContractOp>(&fusion.ops[id].kind);
                   if (op == nullptr || !is_expanded(id)) return std::nullopt;
                   return {{Expansion(rewriter, *op, operands).run()}};
                 });
}

}  // namespace sinter
