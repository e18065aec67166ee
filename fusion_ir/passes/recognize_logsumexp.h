#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Turns m = max(x) and sum(exp(x - m)) over the same axes into one logsumexp pair, the reduction
/// that can run online: one read of the row serves both. Softmax, log_softmax, logsumexp and cross
/// entropy all contain it. The pair is defined by the same formula, so results are equal up to the
/// rounding of the sum, rows of infinities and NaN included.
///
/// Does not fire where the subtracted value is not exactly that maximum (one that was clamped or
/// masked, or the maximum of another value, other axes or another shape).
///
/// After: no such pattern is left. Needs: common values shared, so that both x are one value; the
/// algebra done, so that x + (-m) reads x - m. Stands before hoist_divisions, which uses that the
/// sum of a pair is at least 1.
std::optional<Fusion> recognize_logsumexp(const Fusion& fusion);

}  // namespace sinter
