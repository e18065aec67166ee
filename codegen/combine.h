#pragma once

#include <span>

#include "codegen/kernel_builder.h"

namespace sinter::kir {

/// The combiner of a reduction's tuple, whose components are those of exchange_types().
Combiner combiner_of(const OpKind& kind);

/// The value of one component that leaves every tuple unchanged when combined with it. `type` is
/// the component's. For argmax and argmin the index is the largest i64, so that an element equal to
/// the identity's extreme still wins; what a reduction of nothing answers is the caller's matter.
ExprId identity_of(KernelBuilder& builder, Combiner combiner, int64_t component, DType type);

/// Appends the statements for accumulators = combine(accumulators, others); both have
/// components_of(combiner) entries of equal types. `others` may not read the accumulators.
///
///   sum, prod, max, min, any, all   as fusion_ir/op.h; max and min propagate NaN
///   argmax, argmin                  NaN beats numbers; of equals the lower index wins
///   welford (count, mean, m2)       Chan, Golub, LeVeque 1983; a count of 0 changes nothing
///   logsumexp (max, sum)            sums scaled to the larger maximum; -inf with -inf keeps both
///                                   sums as they are instead of giving exp(-inf - -inf) = NaN
///
/// Exchanging the two tuples gives the same bits, except for welford.
void emit_combine(KernelBuilder& builder, Combiner combiner, std::span<const VarId> accumulators,
                  std::span<const ExprId> others);

}  // namespace sinter::kir
