#pragma once

#include <cstdint>

#include "fusion_ir/dtype.h"
#include "fusion_ir/shape.h"
#include "runtime/driver/device_driver.h"

namespace sinter {

/// A tensor the caller owns: an address in device memory, and how to walk it.
struct Tensor {
  DevicePointer address = 0;  ///< Of element [0, ..., 0].
  DType type = DType::kF32;
  Sizes sizes{};
  Sizes strides{};  ///< In elements; empty: dense row-major.
};

}  // namespace sinter
