#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Computes what depends on constants alone: pointwise functions, casts, and moves of a value that
/// is one number everywhere, concatenations and pads that hold but one number, and `extent` ops
/// over constant extents. A folded value is computed in double (integers: exactly) and rounded to
/// its type; it becomes a scalar constant and a broadcast. After: no pointwise function, cast,
/// permute, reshape or slice has only constant operands, but for casts from an integer that no
/// target value represents exactly. Needs: a verified graph. Stands before all that looks for known
/// numbers.
std::optional<Fusion> fold_constants(const Fusion& fusion);

}  // namespace sinter
