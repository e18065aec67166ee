#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a warp-specialised schedule. A producer thread fills the stages of a pipeline with the
/// row-wide inputs by bulk copies, and consumer warp groups take the rows in round-robin order.
/// Apart from the location of the inputs and the barrier of a group, a row is lowered as by
/// lower_rows.
///
/// Before: the schedule is legal (the family's estimate accepted it). Throws InternalError if some
/// interleaving of the warps breaks the pipeline's protocol. After: kernel IR as from lower_rows,
/// with mbarriers.
LoweredKernel lower_pipeline(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
