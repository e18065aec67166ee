#pragma once

#include <vector>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// maximum = max(maximum, all lanes of tile[group]), or the same of minima or of magnitudes.
struct PackedMaximum {
  kir::VarId maximum;  ///< A scalar of f32.
  kir::VarId tile;     ///< Of bf16 or f16, with an even number of lanes.
  kir::ExprId group;
  PointwiseFn fn = PointwiseFn::kMax;  ///< Or kMin.
  bool of_magnitudes = false;
};

/// What an unrolled loop over the lanes of packed tiles does, if that is nothing but to take maxima
/// and minima of its elements in f32, or of their magnitudes. The order does not matter to those,
/// nor does it that elements are compared before they are converted: one instruction can compare
/// two at once, and two conversions are left of a vector instead of eight. Empty for any other
/// loop.
std::vector<PackedMaximum> find_packed_maxima(const kir::Kernel& kernel, const kir::For& loop);

}  // namespace sinter
