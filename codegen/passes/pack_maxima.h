#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Replaces unrolled loops that do nothing but take maxima and minima in f32 of all lanes of packed
/// tiles (bf16, f16), or of their magnitudes, by LaneExtreme. One instruction then compares two
/// lanes, before they are converted: a vector of 8 takes two conversions instead of eight. The
/// result is the same: the order of comparisons does not matter, nor does rounding, which there is
/// none of.
kir::Kernel pack_maxima(kir::Kernel kernel);

}  // namespace sinter
