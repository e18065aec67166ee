#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Merges ops that compute the same value: equal kind, operands, types and shapes. Operands of
/// commutative functions match in either order. Inputs and external calls stay apart, and so do
/// outputs that copy one value.
/// After: no two ops but inputs, external calls and copies are equal.
/// Needs: a verified graph.
/// Stands before the recognitions, which compare values by id.
std::optional<Fusion> share_common_values(const Fusion& fusion);

}  // namespace sinter
