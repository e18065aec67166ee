#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  every shared buffer has an offset, a multiple of 16 and of its alignment; in the order
/// of
///         their ids, none overlapping.
///         The mbarriers follow behind them, from a multiple of 16 on.
/// Before: no pass that adds shared buffers is still to come. Offsets given before are not kept.
/// Order:  last of the passes that know about buffers.
kir::Kernel place_shared_buffers(kir::Kernel kernel);

}  // namespace sinter
