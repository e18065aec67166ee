#pragma once

#include "runtime/interpreter/lane_functions.h"

namespace sinter::interpreter {

/// The function that multiplies matrices of a warp as kir::Mma defines it: `result` is the
/// accumulator, a the left operand, b the right one, each as the registers of its groups one after
/// the other. Products are exact. They are added to the accumulator in order of k, in double, and
/// the sum is rounded once; integers wrap around. Null where kir::mma_accumulator() has no type.
[[nodiscard]] LaneFunction mma_lanes(DType left, DType right);

}  // namespace sinter::interpreter
