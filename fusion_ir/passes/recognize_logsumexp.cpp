#include "fusion_ir/passes/recognize_logsumexp.h"

#include <utility>

#include "fusion_ir/match.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

const ReduceOp* as_reduction(const Fusion& fusion, ValueId value, ReduceFn fn) {
  const auto* reduce = fusion.def_as<ReduceOp>(value);
  return reduce != nullptr && reduce->fn == fn ? reduce : nullptr;
}

/// m, if `sum` is sum(exp(x - broadcast(m))) and m is max(x) over the same axes.
std::optional<ValueId> match_max(const Fusion& fusion, ValueId sum) {
  const auto* reduce = as_reduction(fusion, sum, ReduceFn::kSum);
  if (reduce == nullptr) return std::nullopt;
  const auto exp = operands_of(fusion, fusion.def_of(sum).operands.front(), PointwiseFn::kExp);
  if (exp.empty()) return std::nullopt;
  const auto difference = operands_of(fusion, exp.front(), PointwiseFn::kSub);
  if (difference.empty() || fusion.def_as<BroadcastOp>(difference[1]) == nullptr) {
    return std::nullopt;
  }
  const ValueId m = fusion.def_of(difference[1]).operands.front();
  const auto* max = as_reduction(fusion, m, ReduceFn::kMax);
  if (max == nullptr || max->axes != reduce->axes) return std::nullopt;
  if (fusion.def_of(m).operands.front() != difference[0]) return std::nullopt;
  if (!broadcasts_over(fusion, difference[1], m, reduce->axes)) return std::nullopt;
  return m;
}

}  // namespace

std::optional<Fusion> recognize_logsumexp(const Fusion& fusion) {
  // The pair stands where the maximum stood, which is before the sum.
  std::vector<bool> has_pair(fusion.values.size());
  IdMap<ValueId, ValueId> max_of(fusion.values.size());
  for (const ValueId value : fusion.value_ids()) {
    if (const auto m = match_max(fusion, value)) {
      has_pair[m->index] = true;
      max_of[value] = *m;
    }
  }
  IdMap<ValueId, ValueId> sum_of_pair(fusion.values.size());  // By maximum; ids of the new graph.
  return rewrite(fusion,
                 [&](Rewriter& rewriter, OpId id,
                     std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   const Op& op = fusion.ops[id];
                   const ValueId result = op.results.front();
                   if (has_pair[result.index]) {
                     const auto pair =
                         rewriter.append(LogSumExpOp{reduced_axes(op.kind)}, {operands.front()});
                     sum_of_pair[result] = pair[1];
                     return std::vector{pair[0]};
                   }
                   const ValueId m = std::as_const(max_of)[result];
                   if (!m.valid()) return std::nullopt;
                   return std::vector{std::as_const(sum_of_pair)[m]};
                 });
}

}  // namespace sinter
