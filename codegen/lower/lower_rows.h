#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a schedule that gives each row to a group of threads.
///
/// A multi-wave schedule keeps the values that several stages need (schedule.kept) in registers or
/// shared memory. A thread loads its whole share of the row before the first stage; statistics that
/// take two passes (Welford, logsumexp) read the kept values twice. A looped schedule keeps
/// nothing: every stage reads the row in chunks of `unroll` batches. It makes two passes over a
/// chunk in registers and merges the chunk into running statistics, so one pass over memory serves
/// all statistics of a stage.
///
/// Before: the schedule is legal (the family's estimate accepted it). After: kernel IR with
/// AllReduce statements, unplaced shared buffers and accesses of any width, for run_kernel_passes.
LoweredKernel lower_rows(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
