#include "fusion_ir/passes/share_common_values.h"

#include <algorithm>
#include <unordered_map>

#include "fusion_ir/match.h"
#include "fusion_ir/op_hash.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

/// Operands in an order that does not depend on how a commutative function was written. The first
/// two operands commute; fma has a third.
std::vector<ValueId> canonical_operands(const OpKind& kind, std::span<const ValueId> operands) {
  std::vector<ValueId> canonical(operands.begin(), operands.end());
  const auto* pointwise = std::get_if<PointwiseOp>(&kind);
  if (pointwise != nullptr && is_commutative(pointwise->fn) && canonical[1] < canonical[0]) {
    std::swap(canonical[0], canonical[1]);
  }
  return canonical;
}

size_t combine(size_t hash, uint64_t field) {
  // The mixing step of splitmix64 (Steele, Lea, Flood 2014).
  uint64_t mixed = hash * 0x9e37'79b9'7f4a'7c15U + field;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
  return mixed ^ (mixed >> 27U);
}

/// Ops that compute the same have equal hashes. Others hardly ever have: a tensor of which
/// thousands of slices are taken would otherwise be compared with each of them.
size_t hash_of_result(const OpKind& kind, const Value& result, std::span<const ValueId> operands) {
  size_t hash = combine(hash_of(kind), static_cast<uint64_t>(result.type));
  for (const Extent& extent : result.shape)
    hash = combine(hash, extent.is_symbol() ? extent.symbol().index
                                            : static_cast<uint64_t>(extent.constant()));
  for (const ValueId operand : canonical_operands(kind, operands)) {
    hash = combine(hash, operand.index);
  }
  return hash;
}

bool may_share(const Fusion& source, const Op& op) {
  return !std::holds_alternative<InputOp>(op.kind) &&
         !std::holds_alternative<ExternalOp>(op.kind) && !is_copy(source, op.results.front());
}

/// `op` stands in the source with `operands` in the new graph, `made` is an op of the new graph.
bool computes_same(const Fusion& source, const Op& op, std::span<const ValueId> operands,
                   const Fusion& graph, const Op& made) {
  if (op.kind != made.kind ||
      canonical_operands(op.kind, operands) != canonical_operands(made.kind, made.operands)) {
    return false;
  }
  const Value& a = source.values[op.results.front()];
  const Value& b = graph.values[made.results.front()];
  return a.type == b.type && a.shape == b.shape;
}

}  // namespace

std::optional<Fusion> share_common_values(const Fusion& fusion) {
  // Results in the source by hash; what they became in the new graph is known when they are found.
  std::unordered_multimap<size_t, OpId> seen;
  return rewrite(
      fusion,
      [&seen](Rewriter& rewriter, OpId id,
              std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
        const Fusion& source = rewriter.source();
        const Op& op = source.ops[id];
        if (!may_share(source, op)) return std::nullopt;
        const size_t hash = hash_of_result(op.kind, source.values[op.results.front()], operands);
        const auto [first, last] = seen.equal_range(hash);
        for (auto it = first; it != last; ++it) {
          const Op& earlier = source.ops[it->second];
          const Op& made = rewriter.graph().def_of(rewriter.mapped(earlier.results.front()));
          if (!computes_same(source, op, operands, rewriter.graph(), made)) continue;
          std::vector<ValueId> shared;
          for (const ValueId result : earlier.results) shared.push_back(rewriter.mapped(result));
          return shared;
        }
        seen.emplace(hash, id);
        return std::nullopt;
      });
}

}  // namespace sinter
