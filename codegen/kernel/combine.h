#pragma once

#include <span>
#include <vector>

#include "codegen/kernel/kernel_builder.h"

namespace sinter::kir {

/// The value of one component that leaves every tuple unchanged when combined with it. `type` is
/// the component's. For argmax and argmin the index is the largest of its type. It stays so if no
/// element beats the identity's extreme; place_of_extreme() handles that case.
ExprId identity_of(KernelBuilder& builder, Combiner combiner, int64_t component, DType type);

/// The result of an argmax or argmin whose tuple has `index`. A tuple with the identity's index has
/// no elements, or only elements equal to the identity's extreme; the result is then 0.
ExprId place_of_extreme(KernelBuilder& builder, ExprId index);

/// True if both are equal, or both NaN.
ExprId is_same(KernelBuilder& builder, ExprId x, ExprId y);

/// emit_combine() for the tuple of one element that comes after all accumulated elements. argmax
/// and argmin then compare no indices: an element equal to the extreme changes nothing.
void emit_append(KernelBuilder& builder, Combiner combiner, std::span<const VarId> accumulators,
                 std::span<const ExprId> element);

/// The tuple of one element `x` of a kIndependent reduction.
std::vector<ExprId> independent_element(KernelBuilder& builder, Combiner combiner, ExprId x);

/// The tuple (count, mean, m2) of one element of a Welford reduction, whose m2 is NaN if `x` is not
/// finite.
std::vector<ExprId> welford_element(KernelBuilder& builder, ExprId x);

/// The sum of a logsumexp pair of at least one element. The reduction's formula gives NaN if the
/// maximum is not finite; a running sum does not, so this function adds that case.
ExprId sum_of_pair(KernelBuilder& builder, ExprId max, ExprId sum);

/// Appends the statements for accumulators = combine(accumulators, others); both have
/// std::ssize(traits_of(combiner).components) entries of equal types. `others` may not read the
/// accumulators.
///
///   sum, prod, max, min, any, all   as fusion_ir/op.h; max and min propagate NaN
///   an embedder's reduction         each component by its own function
///   argmax, argmin                  NaN beats numbers; of equals the lower index wins
///   welford (count, mean, m2)       Chan, Golub, LeVeque 1983; a count of 0 changes nothing, and
///                                   equal means stay exactly as they are and add nothing to m2.
///                                   Of infinite or NaN elements m2 is NaN: see welford_element
///   logsumexp (max, sum)            sums scaled to the larger maximum; -inf with -inf keeps both
///                                   sums as they are instead of giving exp(-inf - -inf) = NaN
///
/// Exchanging the two tuples gives the same bits, except for welford.
void emit_combine(KernelBuilder& builder, Combiner combiner, std::span<const VarId> accumulators,
                  std::span<const ExprId> others);

/// emit_combine() for two tuples of a Welford reduction that have the same number of elements each:
/// their weights are known, and nothing is divided. The first one decides the last bits.
///
///   mean, m2   mean + (other - mean) / 2, m2 + other m2 + count (other - mean)^2 / 2
void emit_combine_of_equal_counts(KernelBuilder& builder, std::span<const VarId> accumulators,
                                  std::span<const ExprId> others, int64_t count);

}  // namespace sinter::kir
