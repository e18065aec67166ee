#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Turns mean = sum(x) / n (or times 1/n) and sum((x - mean)^2) over the same axes into one Welford
/// reduction, which can run online: one read of the row serves both. Whatever is made of the sum of
/// squared deviations, a variance with n or n - 1 say, stays.
///
/// Fires only where n is the number of elements reduced, and all reduced extents are constants of
/// at least 1: over no elements the formula gives NaN for the mean and Welford 0. So symbolic
/// graphs keep the formula until `specialize` has bound their extents. Does not fire on mean(x^2) -
/// mean(x)^2, which cancels where Welford does not.
///
/// One thing changes: of rows with infinite elements the formula's mean is infinite, and Welford's
/// may be NaN, because an update after infinity subtracts it from itself. What follows from the
/// deviations is NaN either way.
///
/// After: no such pattern is left. Needs: constants folded, common values shared, pow(d, 2) written
/// as d * d. Stands behind the passes that provide this.
std::optional<Fusion> recognize_welford(const Fusion& fusion);

}  // namespace sinter
