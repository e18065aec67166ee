#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  no load or store moves more than 16 bytes, the widest access of the hardware. A wider
///         one becomes 16-byte pieces in ascending order.
/// Before: widths are powers of two.
/// Order:  after all passes that add accesses. Lowering can treat a vector of elements as one
///         access, whatever the element type of each tensor is.
kir::Kernel split_vector_accesses(kir::Kernel kernel);

}  // namespace sinter
