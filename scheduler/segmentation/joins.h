#pragma once

#include "fusion_ir/fusion.h"

namespace sinter {

/// The same graph with every pad as concatenates of constants, and with operands of concatenates
/// that may be written straight into their place in the result: a copy (a broadcast to its own
/// shape) stands before those that have memory of their own. These are inputs and outputs, results
/// of external calls and what is passed to one unless the place is dense and aligned to 16 bytes,
/// and what is an operand of two concatenates.
Fusion with_places_for_joins(const Fusion& fusion);

}  // namespace sinter
