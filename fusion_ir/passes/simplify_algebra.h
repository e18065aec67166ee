#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Replaces ops by cheaper ones of the same value.
///
/// Exact for every operand, NaN, infinities and signed zeros included:
///   x * 1, x / 1, x + (-0.0), x - 0.0 -> x; integers also x + 0 -> x, x * 0 -> 0
///   x * -1, -0.0 - x -> -x; -(-x) -> x; |-x|, ||x|| -> |x|; not not b -> b
///   a + (-b) -> a - b; a - (-b) -> a + b; also where the negation stands under a broadcast
///   x / c -> x * (1/c) for a power of two c with a normal reciprocal
///   select(true, a, b) -> a, select(c, a, a) -> a, select(not c, a, b) -> select(c, b, a)
///   max, min, and, or of (x, x) -> x
///   pow(x, 1) -> x, pow(x, 0) -> 1
///   cast of clamp(round(x), a, b) to an integer -> cast of round(clamp(x, a, b)) for integers a
///   and b: the conversion then rounds by itself cast of a cast, where the inner one loses nothing
///   -> one cast or none broadcast of broadcast, permute of permute, reshape of reshape, slice of
///   slice -> one broadcast of a reshape that only inserts unit axes -> broadcast take along an
///   axis of one element -> select(index == 0, the element, 0) permute, reshape, slice, pad and
///   broadcast that change nothing, concatenate of x alone -> x
/// Equal up to the rounding of the last bits, never less exact in kind:
///   pow(x, 2) -> x * x, pow(x, 3) -> x * x * x, pow(x, -1) -> reciprocal(x)
///   reciprocal(sqrt(x)), 1 / sqrt(x) -> rsqrt(x); 1 / x -> reciprocal(x)
/// Not done, because a NaN, an infinity or a signed zero would come out different: x + 0.0, x *
/// 0.0, x - x, x / x, pow(x, 0.5).
///
/// After: none of these patterns is left. Needs: a verified graph; constants folded, casts and
/// broadcasts placed, to find most. Stands after those passes and before the recognitions, which
/// expect one form of each formula.
std::optional<Fusion> simplify_algebra(const Fusion& fusion);

}  // namespace sinter
