#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Moves slices towards inputs and concatenates towards outputs, through what treats elements one
/// by one, so that parts of a tensor are computed where they are needed and a concatenate's
/// operands can be written straight into its result:
///   slice(f(x, y))          f(slice(x), slice(y)), where nothing else needs f(x, y)
///   f(concatenate(a, b), y) concatenate(f(a, slice(y)), f(b, slice(y))), likewise
///   reduce(concatenate(..)) concatenate(reduce(..)), over other axes than the one joined along
///   slice(concatenate(..))  a slice of the one operand that it lies in
/// Nothing is computed twice, and no value is cut that would not be in memory anyway.
std::optional<Fusion> place_parts(const Fusion& fusion);

}  // namespace sinter
