#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a transpose schedule: one block per tile of two dimensions. Inputs that are contiguous
/// across the lines are loaded into shared memory, those contiguous along the lines into registers,
/// all before the first use. After a barrier the threads evaluate the tile line by line. Outputs
/// that are contiguous across the lines are written to shared memory and, after a barrier, stored
/// from there in their own order. Tiles that reach past the end of a dimension run predicated
/// copies of these parts.
///
/// Before: no reductions; every output spans the iteration space. After: kernel IR for
/// run_kernel_passes.
LoweredKernel lower_transpose(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
