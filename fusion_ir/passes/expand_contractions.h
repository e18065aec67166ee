#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Writes each contraction as pointwise ops on its whole space and a reduction of these: the
/// operands are cast to the result's type, permuted and broadcast. A logsumexp subtracts the
/// largest sum, or 0 where that is not finite, so that sums that are all -inf give -inf. Every
/// precision is computed in f32, which all of them allow.
///
/// After: no contraction is left. Needs: a verified graph.
/// Not part of simplify(): plan() asks for it.
std::optional<Fusion> expand_contractions(const Fusion& fusion);

}  // namespace sinter
