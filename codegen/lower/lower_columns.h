#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a schedule of the column family: every thread accumulates its share of the rows for one
/// vector of columns, the row slots of the block combine their accumulators, and the first slot
/// evaluates and stores the outputs.
LoweredKernel lower_columns(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
