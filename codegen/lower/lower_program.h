#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/program/program.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers the program of a schedule of this segment. Needs: program::check() accepts it.
LoweredKernel lower_program(const program::Program& program, const SegmentFacts& facts,
                            const Schedule& schedule);

/// Lowers a schedule of the column family.
LoweredKernel lower_columns(const SegmentFacts& facts, const Schedule& schedule);
/// Lowers a schedule of the pointwise family.
LoweredKernel lower_pointwise(const SegmentFacts& facts, const Schedule& schedule);
/// Lowers a schedule of the matmul family.
LoweredKernel lower_matmul(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
