#pragma once

#include <cstdint>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Where a value lies that has no tensor of its own: an operand of a concatenate in its result,
/// what a reshape gives another shape in what it is a reshape of, or the other way round, and an
/// output in the input whose memory it takes over.
struct Placement {
  ValueId in;          ///< An input, an output, or a value that the workspace holds.
  int64_t offset = 0;  ///< Bytes from its first element.
  Sizes strides{};     ///< In elements, one for each axis of the value placed.
  friend bool operator==(const Placement&, const Placement&) = default;
};

}  // namespace sinter
