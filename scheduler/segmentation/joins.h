#pragma once

#include "fusion_ir/fusion.h"

namespace sinter {

/// The same graph with every pad replaced by concatenates of constants. Operands of concatenates
/// can be written directly to their place in the result: a copy (a broadcast to its own shape) is
/// inserted before each operand that has memory of its own. These operands are inputs and outputs;
/// results of external calls; operands passed to an external call, unless the place is dense and
/// aligned to 16 bytes; and operands of two concatenates.
Fusion with_places_for_joins(const Fusion& fusion);

}  // namespace sinter
