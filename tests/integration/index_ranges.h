#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"

namespace sinter {

/// What the integers of a kernel can be, as far as intervals tell: thread and block numbers, loop
/// counters and parameters at their launch values, and what is computed from them. Branches are
/// taken to narrow nothing, and what comes from memory is left out.
struct IndexRanges {
  int64_t computed = 0;  ///< Sums, differences and products whose operands are known.
  std::vector<std::string> overflows{};  ///< Of these, those that leave their type.
  /// Indices of 32 bits into global memory beyond what they reach.
  std::vector<std::string> narrow{};
};

/// `elements` of the buffers' graph values are those of `fusion`.
IndexRanges index_ranges(const LoweredKernel& lowered, const Fusion& fusion);

}  // namespace sinter
