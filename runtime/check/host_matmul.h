#pragma once

#include <span>

#include "runtime/interpreter/interpreter.h"
#include "scheduler/families/library_matmul.h"

namespace sinter {

/// Computes a library call on the CPU: sums in double, rounded once to their type, everything
/// behind them in double again, and one rounding to the type of d. `memory` is that of a, b, c
/// where there is one, bias likewise, and d, in this order; what follows is left alone. The library
/// itself may round sums in their type.
void multiply_on_host(const LibraryMatmul& matmul, std::span<const LaunchMemory> memory);

}  // namespace sinter
