#pragma once

#include <cstdint>

#include "fusion_ir/op.h"

namespace sinter {

/// An integer or bool (0 or 1) and how far the device's may lie from it. Zero unless the value
/// derives from a rounded float.
struct BoundedInteger {
  int64_t value = 0;
  double bound = 0.0;
};

/// A pointwise function whose operands are all of integer type or bool. `type` is that of the
/// operands; for comparisons the result is bool. Not for select.
BoundedInteger bounded_integer(PointwiseFn fn, DType type, BoundedInteger a, BoundedInteger b = {},
                               BoundedInteger c = {});
BoundedInteger select_bounded(BoundedInteger condition, BoundedInteger a, BoundedInteger b);

/// Makes the bound infinite where value +- bound leaves the type's range and so may wrap around.
BoundedInteger settle_integer(DType type, BoundedInteger x);

}  // namespace sinter
