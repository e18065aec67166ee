#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Threads of the producer warp group: setmaxnreg applies to groups of four warps.
inline constexpr int64_t kProducerThreads = 128;

/// Registers per thread that the producer keeps: the fewest that setmaxnreg can leave (PTX ISA).
inline constexpr int64_t kProducerRegisters = 24;

/// Threads of a block: the consumer warp groups and the producer.
int64_t specialised_threads(const Schedule& schedule);

/// Row-wide inputs, which arrive through the pipeline.
std::vector<ValueId> pipeline_inputs(const SegmentFacts& facts);

/// Stage groups of the pipeline with an mbarrier pair each: every group holds rows_per_iteration
/// rows.
int64_t pipeline_slots(const Schedule& schedule);

/// Bytes of one pipeline stage: a block's columns of one row of every input.
int64_t pipeline_row_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Shared bytes of a block beside the stages of the pipeline: kept values, accumulators, the
/// exchanges of every consumer group. The same for all depths.
int64_t bytes_beside_pipeline(const SegmentFacts& facts, const Schedule& schedule,
                              const StageList& list);

/// Shared bytes of a block: the pipeline with its mbarriers, and what is beside it.
int64_t pipeline_shared_bytes(const SegmentFacts& facts, const Schedule& schedule, int64_t beside);
inline int64_t pipeline_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                                     const StageList& list) {
  return pipeline_shared_bytes(facts, schedule, bytes_beside_pipeline(facts, schedule, list));
}

/// True if a row is completely read before its first row barrier, and its pipeline stage is
/// released then.
bool releases_early(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
