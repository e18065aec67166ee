#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a schedule of the column family: every thread walks its share of the rows for one vector
/// of columns, the row slots of the block combine what they accumulated, and the first slot
/// evaluates and stores what follows from it.
LoweredKernel lower_columns(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
