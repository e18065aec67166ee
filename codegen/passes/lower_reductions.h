#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  no AllReduce is left, and every thread of a group holds the same bits. Groups of up to
///         32 threads exchange by shuffles alone. In wider groups each warp writes one tuple to
///         shared scratch memory; after one barrier for all parts, every warp reads and combines
///         the tuples of its group. Groups that span the blocks of a cluster exchange through
///         distributed shared memory. Each AllReduce has its own scratch memory. If a loop repeats
///         an AllReduce with no other barrier in between, its scratch is double-buffered, so that a
///         fast warp never overwrites what a slow one still reads. The AllReduce's phase, if it has
///         one, selects the buffer.
/// Before: all threads concerned execute the AllReduce (verify_kernel checks it).
/// Order:  after remove_dead_statements, so that no unused value is reduced; before
///         place_shared_buffers, which places the scratch memory.
kir::Kernel lower_reductions(kir::Kernel kernel);

}  // namespace sinter
