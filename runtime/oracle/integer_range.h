#pragma once

#include <cstdint>

#include "fusion_ir/dtype.h"

namespace sinter {

/// Lowest value of an integer type; 0 for bool.
int64_t lowest_integer(DType type);
/// Highest value of an integer type; 1 for bool.
int64_t highest_integer(DType type);
/// What a cast between integer types gives: the nearest value that `type` holds, as round_to gives
/// for reals. Bool becomes value != 0.
int64_t saturate_to(DType type, int64_t value);

}  // namespace sinter
