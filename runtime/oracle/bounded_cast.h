#pragma once

#include "runtime/oracle/bounded_integer.h"
#include "runtime/oracle/bounded_real.h"

namespace sinter {

// Casts by the rules of fusion_ir/op.h. Conversions are monotone, so what the device may hold lies
// between the conversions of the interval's ends: a rounding that both ends agree on is certain.

/// To a float type: rounds to it. Also what storing an output does.
BoundedReal cast_to_real(DType type, BoundedReal x);
BoundedReal cast_to_real(DType type, BoundedInteger x);
/// To an integer type or bool: reals truncate and saturate, integers saturate.
BoundedInteger cast_to_integer(DType type, BoundedReal x);
BoundedInteger cast_to_integer(DType type, BoundedInteger x);

}  // namespace sinter
