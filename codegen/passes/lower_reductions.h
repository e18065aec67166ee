#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  no AllReduce is left, and every thread of a group holds the same bits. Groups of up to
/// 32
///         threads exchange by shuffles alone. Wider ones leave one tuple per warp in shared
///         scratch, wait at one barrier for all parts together, and every warp reads and combines
///         the tuples of its group. Each AllReduce has scratch of its own; one that a loop repeats
///         with no other barrier in between uses two halves in turn, so that a fast warp never
///         overwrites what a slow one still reads. A phase picks the half instead, if there is one.
/// Before: AllReduce stands where all threads concerned arrive (verify_kernel checks it).
/// Order:  after dead statements are gone, so that nothing is exchanged in vain; before
///         place_shared_buffers, which places the scratch.
kir::Kernel lower_reductions(kir::Kernel kernel);

}  // namespace sinter
