#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a transpose schedule: one block per tile of two dimensions. Its threads load what is
/// fastest across the lines into shared memory, and into registers what is fastest along them, all
/// before the first use; a barrier; then they evaluate the tile line by line. Outputs that are
/// fastest across the lines go to shared memory and, behind a barrier, from there in their own
/// order. Tiles that reach past the end of a dimension take guarded copies of these parts.
///
/// Before: no reductions; every output spans the iteration space. After: kernel IR for
/// run_kernel_passes.
LoweredKernel lower_transpose(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
