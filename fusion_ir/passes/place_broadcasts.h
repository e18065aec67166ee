#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Computes on the smaller tensor: a pointwise function whose operands are all broadcasts is
/// computed on the smallest shape that holds them and broadcast once. A row statistic's rsqrt then
/// runs once per row, not once per element.
/// After: no pointwise function has an axis, or an extent above 1, along which all its operands
/// repeat.
/// Needs: a verified graph.
/// Stands before algebra and sharing, which see through a graph with fewer broadcasts.
std::optional<Fusion> place_broadcasts(const Fusion& fusion);

}  // namespace sinter
