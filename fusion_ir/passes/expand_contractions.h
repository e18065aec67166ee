#pragma once

#include <functional>
#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Writes each contraction as pointwise ops on its whole space and a reduction of these: the
/// operands are cast to the result's type, permuted and broadcast. A logsumexp subtracts the
/// largest sum, or 0 where that is not finite, so that sums that are all -inf give -inf. Every
/// precision is computed in f32, which all of them allow.
///
/// After: no contraction is left, or none for which `is_expanded` is true. Needs: a verified graph.
/// Not part of simplify(): plan() asks for it.
std::optional<Fusion> expand_contractions(const Fusion& fusion);
std::optional<Fusion> expand_contractions(const Fusion& fusion,
                                          const std::function<bool(OpId)>& is_expanded);

}  // namespace sinter
