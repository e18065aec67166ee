#pragma once

#include <cstdint>
#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// A symbol along which a fusion computes slice by slice: it is only ever the outermost axis, no op
/// reduces, counts, gathers or asks for its size. Inputs that repeat every `n` slices then give
/// outputs that repeat every `n` slices, so that a large problem can be held in full against an
/// oracle that evaluates `n` slices. The first such symbol that an output has; none if there is
/// none.
std::optional<SymbolId> slicewise_symbol(const Fusion& fusion);

/// The longest period, at most `size`, with which the fusion reads and writes about
/// `element_budget` elements; at least one, and a multiple of what the symbol's size must be
/// divisible by. Below `size` it is an odd such multiple where there is one: a kernel that swaps
/// rows at a distance of a power of two then cannot go unseen.
int64_t repetition_period(const Fusion& fusion, const Binding& binding, SymbolId symbol,
                          int64_t element_budget);

}  // namespace sinter
