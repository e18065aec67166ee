#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a multi-tensor apply schedule, for a list of tensors. Each block finds the member that
/// contains its elements by a search in a table of first blocks, then works on one tile of it as a
/// pointwise block does. Tables have list_capacity() places. Addresses, sizes and first blocks are
/// kernel arguments. So the kernel depends only on the number of members, on whether all of them
/// end with a whole vector, and on whether one is too long for 32-bit indices.
///
/// Before: facts of analyse_list(). After: kernel IR for run_kernel_passes.
LoweredKernel lower_multi_tensor(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
