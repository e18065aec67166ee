#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  an `if` without `else` that holds only loads from single global tensors into tiles is
///         replaced by these loads with its condition as predicate (Load::predicate). A branch
///         would keep them from being issued together with the loads before it.
/// Before: loads have their final width. A condition that reads a tile is left alone: it is
///         evaluated again for each load.
/// Order:  after split_vector_accesses, which replaces a load by several in the same block.
kir::Kernel predicate_loads(kir::Kernel kernel);

}  // namespace sinter
