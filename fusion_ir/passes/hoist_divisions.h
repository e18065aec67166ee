#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Replaces a division per element by a multiplication, where the reciprocal can be had more
/// cheaply and cannot leave the range of normal numbers:
///   a / sqrt(b) -> a * rsqrt(b): the root of a positive f32 lies between 2^-75 and 2^64
///   a / broadcast(s) -> a * broadcast(reciprocal(s)) where s is the sum of a logsumexp pair: it
///     holds exp(0), so it lies between 1 and the number of elements
///   a / broadcast(s) -> likewise where s is max(b * k, c) in f32 with constants |k| <= 1/4 and
///   2^-126 <= c <= 2^126, as scales of quantisation are: s lies between c and 2^126, or is NaN or
///   infinite, with a reciprocal of NaN or 0
///   a / c -> a * (1 / c) in f32, for a constant c that is a normal number like its reciprocal:
///     both round, and so stay within the 2 ulps of a division (div.full.f32)
/// Results are equal up to rounding, zeros, infinities and NaN included. Other divisors may have a
/// reciprocal that overflows, and keep their division.
///
/// After: none of these patterns is left. Needs: recognize_logsumexp and recognize_welford, which
/// look for divisions. Stands last for that reason.
std::optional<Fusion> hoist_divisions(const Fusion& fusion);

}  // namespace sinter
