#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Makes a contraction of a matrix product that is written element by element:
///
///   sum(mul(a, b) over k)    contract.sum(a, b)
///   max(add(a, b) over k)    contract.max(a, b)
///
/// where each of a and b varies along an axis of the result along which the other does not, and
/// both along one of k. Casts, broadcasts and permutations may stand before the pairs, which
/// nothing else may read. A contraction of f32 has the precision ieee; the order of a sum is not
/// defined either way. After: place_contractions() brings the operands to where they are read.
/// Needs: a verified graph of constant extents. Expanding contractions undoes the pass, so it
/// stands in no pipeline: planning runs it once, before it chooses how contractions are computed.
std::optional<Fusion> recognize_contractions(const Fusion& fusion);

}  // namespace sinter
