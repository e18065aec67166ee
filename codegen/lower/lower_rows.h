#pragma once

#include "codegen/lower/lowered_kernel.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Lowers a schedule that gives each row to a group of threads.
///
/// A multi-wave schedule keeps the values that several stages need (schedule.kept) in
/// registers or shared memory: all of a thread's share of the row is loaded before the first stage,
/// and statistics that take two sweeps (Welford, logsumexp) sweep over what is held. A looped
/// schedule keeps nothing: every stage reads the row in chunks of `unroll` batches, sweeps twice
/// over a chunk in registers and merges it into running statistics, so that one pass over memory
/// serves all statistics of a stage.
///
/// Before: the schedule is legal (the family's estimate accepted it). After: kernel IR with
/// AllReduce statements, unplaced shared buffers and accesses of any width, for run_kernel_passes.
LoweredKernel lower_rows(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
