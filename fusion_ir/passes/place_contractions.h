#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Lets contractions read what their operands are made of, where that only moves elements:
///
///   contract(permute(x), y)        the axes of x are placed where those of the permutation were
///   contract(broadcast(x), y)      the axes that x lacks are those of y alone, if y has them all
///                                  and none is reduced
///   contract(cast(x), cast(y))     x and y are contracted in the type of the casts anyway, if both
///                                  are of one type, or 8-bit floats
///
/// Nothing changes in the results: casts to the type of a contraction are exact, and so are
/// products of what had 16 bits or fewer, in all precisions.
/// After: no operand of a contraction is a permutation. Needs: a verified graph.
/// Stands behind place_casts and place_broadcasts, which bring permutations and broadcasts to where
/// they are read.
std::optional<Fusion> place_contractions(const Fusion& fusion);

}  // namespace sinter
