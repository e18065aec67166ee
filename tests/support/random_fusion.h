#pragma once

#include <cstdint>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Largest magnitude an input of a random fusion should have. Every value of it then stays within
/// 64, so that no type overflows and bounds on rounding errors stay small.
inline constexpr double kRandomInputBound = 4.0;

struct RandomFusionOptions {
  bool joins = false;  ///< Also concatenates and pads, which no kernel computes.
  bool picks = false;  ///< Also takes an element of each row, by indices that are an input.
};

/// A valid fusion over [rows, cols] that depends on the seed alone: `size` steps that mix pointwise
/// functions, casts to bf16 and f16 and back, broadcasts of row statistics, of row vectors and of
/// scalars, selections, and reductions over cols. It has 1 to 4 outputs and bears its seed and size
/// in its name.
Fusion random_fusion(uint64_t seed, int size = 12, const RandomFusionOptions& options = {});

}  // namespace sinter
