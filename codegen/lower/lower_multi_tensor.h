#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a schedule of a list of tensors: each block finds the member whose elements it has by
/// searching a table of first blocks, then takes one tile of it as a pointwise block does. Tables
/// have places for list_capacity() members; addresses, sizes and first blocks are arguments, so the
/// kernel depends on the members only by how many they are, whether all of them end with a vector,
/// and whether one is too long for 32-bit indices.
///
/// Before: facts of analyse_list(). After: kernel IR for run_kernel_passes.
LoweredKernel lower_multi_tensor(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
