#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Threads of the producer: setmaxnreg acts on groups of four warps.
inline constexpr int64_t kProducerThreads = 128;

/// Registers that the producer keeps: the least that setmaxnreg can leave (PTX ISA).
inline constexpr int64_t kProducerRegisters = 24;

/// Threads of a block: the compute groups and the producer.
int64_t specialised_threads(const Schedule& schedule);

/// Row-wide inputs, which arrive through the ring.
std::vector<ValueId> pipeline_inputs(const SegmentFacts& facts);

/// Slots of the ring, each for as many rows as a group works on side by side.
int64_t pipeline_slots(const Schedule& schedule);

/// Bytes that one stage holds: a block's columns of a row of every input.
int64_t pipeline_row_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Shared bytes of a block: the ring, what is kept, the exchanges of every group, the mbarriers.
int64_t pipeline_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                              const StageList& list);

/// True if a row is read to its end before its first row barrier, and its slot given back then.
bool releases_early(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
