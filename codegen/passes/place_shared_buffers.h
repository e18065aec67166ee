#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  every shared buffer has an offset, a multiple of 16 and of its alignment. Buffers are
///         placed in the order of their ids and do not overlap. The mbarriers follow, from a
///         multiple of 16.
/// Before: no later pass adds shared buffers. Earlier offsets are replaced.
/// Order:  after all passes that add shared buffers.
kir::Kernel place_shared_buffers(kir::Kernel kernel);

}  // namespace sinter
