#include "fusion_ir/passes/recognize_contractions.h"

#include <algorithm>
#include <bitset>
#include <variant>

#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

using AxisSet = std::bitset<kMaxRank>;

/// A factor of a product: the narrow type that it is cast from, and the axes along which its
/// elements may differ.
struct Factor {
  std::optional<DType> narrow;
  AxisSet varies;
};

Factor factor_of(const Fusion& graph, ValueId value) {
  const Value& info = graph.values[value];
  const Op& op = graph.def_of(value);
  Factor out;
  if (std::holds_alternative<CastOp>(op.kind)) {
    out = factor_of(graph, op.operands[0]);
    if (!out.narrow) out.narrow = graph.values[op.operands[0]].type;
    return out;
  }
  if (const auto* broadcast = std::get_if<BroadcastOp>(&op.kind)) {
    const Factor from = factor_of(graph, op.operands[0]);
    out.narrow = from.narrow;
    for (size_t i = 0; i < broadcast->axes.size(); ++i)
      out.varies[static_cast<size_t>(broadcast->axes[i])] = from.varies[i];
    return out;
  }
  if (const auto* permute = std::get_if<PermuteOp>(&op.kind)) {
    const Factor from = factor_of(graph, op.operands[0]);
    out.narrow = from.narrow;
    for (size_t i = 0; i < permute->order.size(); ++i)
      out.varies[i] = from.varies[static_cast<size_t>(permute->order[i])];
    return out;
  }
  for (size_t axis = 0; axis < info.shape.size(); ++axis)
    out.varies[axis] = info.shape[axis].constant() != 1;
  return out;
}

/// True if the factors of a sum over `summed` are operands of a matrix product.
bool is_matrix_product(const Factor& left, const Factor& right, AxisSet summed, DType type) {
  return left.narrow && right.narrow && contract_as_they_are(*left.narrow, *right.narrow) &&
         bytes_of(*left.narrow) < bytes_of(type) && compute_type(*left.narrow) == type &&
         (left.varies & ~right.varies & ~summed).any() &&
         (right.varies & ~left.varies & ~summed).any() &&
         (left.varies & right.varies & summed).any();
}

/// The op that contracts two operands of a sum's shape, which both have all of its axes.
ContractOp contraction_over(const std::vector<int>& summed, size_t rank) {
  ContractOp out;
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
                   if (reduce == nullptr || reduce->fn != ReduceFn::kSum ||
                       uses[fusion.ops[id].operands[0]] != 1)
                     return std::nullopt;
                   const Fusion& graph = rewriter.graph();
                   const auto* product = graph.def_as<PointwiseOp>(operands[0]);
                   if (product == nullptr || product->fn != PointwiseFn::kMul) return std::nullopt;
                   const std::vector<ValueId> factors = graph.def_of(operands[0]).operands;
                   AxisSet summed;
                   for (const int axis : reduce->axes) summed[static_cast<size_t>(axis)] = true;
                   const Value& value = graph.values[operands[0]];
                   if (!is_matrix_product(factor_of(graph, factors[0]),
                                          factor_of(graph, factors[1]), summed, value.type))
                     return std::nullopt;
                   return rewriter.append(contraction_over(reduce->axes, value.shape.size()),
                                          factors);
                 });
}

}  // namespace sinter
