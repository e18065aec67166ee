#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  an unrolled loop that only takes f32 maxima or minima over all lanes of packed tiles
///         (bf16, f16; an even number of lanes), or over the magnitudes of the lanes, is replaced
///         by LaneExtreme statements. One instruction then compares two lanes before they are
///         converted: a vector of 8 lanes takes two conversions instead of eight. The result is the
///         same, because the order of the comparisons does not matter and nothing is rounded.
/// Before: the loops of reductions are in the kernel.
/// Order:  after lowering, which makes these loops; before take_fast_paths, which copies loops.
kir::Kernel pack_maxima(kir::Kernel kernel);

}  // namespace sinter
