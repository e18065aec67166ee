#include "codegen/kernel/expr_interner.h"

#include <bit>
#include <utility>

#include "fusion_ir/result.h"

namespace sinter::kir {
namespace {

/// Mixes two words (the multiplier is that of SplitMix64's finaliser). The value only picks a
/// bucket; nothing that is printed depends on it.
uint64_t mix(uint64_t seed, uint64_t value) {
  const uint64_t x = (seed ^ value) * 0xbf58'476d'1ce4'e5b9U;
  return x ^ (x >> 29U);
}

uint64_t hash_of(const Expr& expr) {
  const uint64_t seed = mix(static_cast<uint64_t>(expr.type), expr.kind.index());
  return std::visit(
      overloaded{
          [&](const IntegerConstant& x) { return mix(seed, static_cast<uint64_t>(x.value)); },
          [&](const FloatConstant& x) { return mix(seed, std::bit_cast<uint64_t>(x.value)); },
          [&](const VarRef& x) { return mix(seed, x.var.index); },
          [&](const ElementRef& x) {
            return mix(mix(mix(seed, x.tile.index), x.group.index), x.lane.index);
          },
          [&](const SpecialRef& x) { return mix(seed, static_cast<uint64_t>(x.special)); },
          [&](const ParamRef& x) { return mix(seed, x.param.index); },
          [&](const PointwiseExpr& x) {
            uint64_t hash = mix(mix(seed, static_cast<uint64_t>(x.fn)), x.state.index);
            for (const ExprId argument : x.arguments) hash = mix(hash, argument.index);
            return hash;
          },
          [&](const CastExpr& x) { return mix(mix(seed, x.argument.index), x.to_tf32 ? 1 : 0); },
      },
      expr.kind);
}

}  // namespace

ExprInterner::ExprInterner(IdVector<ExprId, Expr>* table) : table_(table) {
  for (uint32_t i = 0; i < table->size(); ++i) {
    by_hash_.emplace(hash_of((*table)[ExprId{i}]), ExprId{i});
  }
}

ExprId ExprInterner::intern(Expr expr) {
  const uint64_t hash = hash_of(expr);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if ((*table_)[it->second] == expr) return it->second;
  }
  const ExprId id = table_->push_back(std::move(expr));
  by_hash_.emplace(hash, id);
  return id;
}

}  // namespace sinter::kir
