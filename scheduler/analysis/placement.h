#pragma once

#include <cstdint>

#include "fusion_ir/fusion.h"

namespace sinter {

/// The memory of a value without a tensor of its own: an operand of a concatenate lies in its
/// result, the operand and result of a reshape share memory, and an output may lie in the input
/// that it overwrites.
struct Placement {
  ValueId in;          ///< An input, an output, or a value in the workspace.
  int64_t offset = 0;  ///< Bytes from its first element.
  Sizes strides{};     ///< In elements, one for each axis of the value placed.
  friend bool operator==(const Placement&, const Placement&) = default;
};

}  // namespace sinter
