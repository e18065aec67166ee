#include "fusion_ir/passes/share_common_values.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "fusion_ir/match.h"
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

/// Equal ops have equal hashes; attributes beyond these are left to the comparison.
size_t hash_of(const OpKind& kind, const Value& result, std::span<const ValueId> operands) {
  size_t hash = combine(kind.index(), static_cast<uint64_t>(result.type));
  if (const auto* pointwise = std::get_if<PointwiseOp>(&kind)) {
    hash = combine(hash, static_cast<uint64_t>(pointwise->fn));
  } else if (const auto* constant = std::get_if<ConstantOp>(&kind)) {
    hash = combine(hash, std::bit_cast<uint64_t>(constant->real));
    hash = combine(hash, static_cast<uint64_t>(constant->integer));
  }
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

Fusion share_common_values(const Fusion& fusion) {
  // Results in the source by hash; what they became in the new graph is known when they are found.
  std::unordered_multimap<size_t, OpId> seen;
  return rewrite(
      fusion,
      [&seen](Rewriter& rewriter, OpId id,
              std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
        const Fusion& source = rewriter.source();
        const Op& op = source.ops[id];
        if (!may_share(source, op)) return std::nullopt;
        const size_t hash = hash_of(op.kind, source.values[op.results.front()], operands);
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
