#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a warp-specialised schedule: a producer thread keeps a ring of row-wide inputs full by
/// bulk copies, and groups of threads take its rows in turns. Beside where inputs come from and how
/// a group waits, a row is lowered as lower_rows does.
///
/// Before: the schedule is legal (the family's estimate accepted it). Throws InternalError if the
/// ring's protocol breaks in some order of its warps. After: kernel IR as from lower_rows, with
/// mbarriers.
LoweredKernel lower_pipeline(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
