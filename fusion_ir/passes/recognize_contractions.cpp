#include "fusion_ir/passes/recognize_contractions.h"

#include <algorithm>
#include <bitset>
#include <variant>

#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

using AxisSet = std::bitset<kMaxRank>;

/// The axes along which the elements of a value may differ.
AxisSet varying_axes(const Fusion& graph, ValueId value) {
  const Value& info = graph.values[value];
  const Op& op = graph.def_of(value);
  if (std::holds_alternative<CastOp>(op.kind)) return varying_axes(graph, op.operands[0]);
  AxisSet out;
  if (const auto* broadcast = std::get_if<BroadcastOp>(&op.kind)) {
    const AxisSet from = varying_axes(graph, op.operands[0]);
    for (size_t i = 0; i < broadcast->axes.size(); ++i)
      out[static_cast<size_t>(broadcast->axes[i])] = from[i];
    return out;
  }
  if (const auto* permute = std::get_if<PermuteOp>(&op.kind)) {
    const AxisSet from = varying_axes(graph, op.operands[0]);
    for (size_t i = 0; i < permute->order.size(); ++i)
      out[i] = from[static_cast<size_t>(permute->order[i])];
    return out;
  }
  for (size_t axis = 0; axis < info.shape.size(); ++axis)
    out[axis] = info.shape[axis].constant() != 1;
  return out;
}

/// True if operands that vary along these axes make a matrix product over `reduced`.
bool is_matrix_product(AxisSet left, AxisSet right, AxisSet reduced) {
  return (left & ~right & ~reduced).any() && (right & ~left & ~reduced).any() &&
         (left & right & reduced).any();
}

/// The contraction that reduces pairs that are combined so, if there is one.
std::optional<ContractFn> contraction_of(ReduceFn reduce, PointwiseFn pair) {
  if (reduce == ReduceFn::kSum && pair == PointwiseFn::kMul) return ContractFn::kSum;
  if (reduce == ReduceFn::kMax && pair == PointwiseFn::kAdd) return ContractFn::kMax;
  return std::nullopt;
}

/// The op that contracts two operands of a sum's shape, which both have all of its axes.
ContractOp contraction_over(const std::vector<int>& summed, size_t rank, ContractFn fn) {
  ContractOp out{.fn = fn};
  out.left.resize(rank);
  int next = 0;
  for (const bool of_sum : {false, true}) {
    for (size_t axis = 0; axis < rank; ++axis) {
      const bool is_summed = std::ranges::find(summed, static_cast<int>(axis)) != summed.end();
      if (is_summed != of_sum) continue;
      if (of_sum) out.reduced.push_back(next);
      out.left[axis] = next++;
    }
  }
  out.right = out.left;
  return out;
}

}  // namespace

std::optional<Fusion> recognize_contractions(const Fusion& fusion) {
  IdMap<ValueId, int> uses(fusion.values.size());
  for (const OpId id : fusion.op_ids()) {
    for (const ValueId operand : fusion.ops[id].operands) ++uses[operand];
  }
  for (const ValueId output : fusion.outputs) ++uses[output];
  return rewrite(fusion,
                 [&](Rewriter& rewriter, OpId id,
                     std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   const auto* reduce = std::get_if<ReduceOp>(&fusion.ops[id].kind);
                   if (reduce == nullptr || uses[fusion.ops[id].operands[0]] != 1)
                     return std::nullopt;
                   const Fusion& graph = rewriter.graph();
                   const auto* pair = graph.def_as<PointwiseOp>(operands[0]);
                   if (pair == nullptr) return std::nullopt;
                   const auto fn = contraction_of(reduce->fn, pair->fn);
                   if (!fn) return std::nullopt;
                   const std::vector<ValueId> factors = graph.def_of(operands[0]).operands;
                   AxisSet reduced;
                   for (const int axis : reduce->axes) reduced[static_cast<size_t>(axis)] = true;
                   if (!is_matrix_product(varying_axes(graph, factors[0]),
                                          varying_axes(graph, factors[1]), reduced))
                     return std::nullopt;
                   const size_t rank = graph.values[operands[0]].shape.size();
                   return rewriter.append(contraction_over(reduce->axes, rank, *fn), factors);
                 });
}

}  // namespace sinter
