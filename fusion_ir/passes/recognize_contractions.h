#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Makes a contraction of a matrix product that is written element by element:
///
///   sum(mul(a, b) over k)    contract.sum(a, b), if a and b are casts of 16- or 8-bit values, each
///                            lacks an axis of the sum that the other has, and both have one of k
///
/// Casts, broadcasts and permutations may stand between the narrow values and the product, which
/// nothing else may read. Products of such values are exact in the type of the casts; the order of
/// a sum is not defined either way.
/// After: place_contractions() brings the operands to where they are read. Needs: a verified graph
/// of constant extents. Expanding contractions undoes the pass, so it stands in no pipeline:
/// planning runs it once, before it chooses how contractions are computed.
std::optional<Fusion> recognize_contractions(const Fusion& fusion);

}  // namespace sinter
