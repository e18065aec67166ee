#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a pointwise schedule: one block per tile of threads x vector x unroll elements, all loads
/// of a tile before the first use. The last block, whose tile may reach past the end, runs a
/// predicated copy of the body. The number of elements is a run-time argument.
///
/// Before: no reductions; every output spans the iteration space or is a scalar. After: kernel IR
/// for run_kernel_passes.
LoweredKernel lower_pointwise(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
