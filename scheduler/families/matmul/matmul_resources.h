#pragma once

#include <cstdint>

#include "scheduler/analysis/stages.h"
#include "scheduler/families/family.h"
#include "scheduler/program/program.h"

namespace sinter::matmul {

/// What the stages of a row do for each element, together.
Stage all_of(const StageList& list);

/// Elements that a lane of an epilogue has of a row of the tile.
int64_t elements_of_lane(const SegmentFacts& facts, const program::Program& program,
                         const program::Region& region);

/// Registers, shared memory and occupancy of a program that program::check() accepts, or the budget
/// that it exceeds. `stage` is what its stages do, all_of() them.
tl::expected<ResourceEstimate, Rejection> estimate_program(const SegmentFacts& facts,
                                                           const Schedule& schedule,
                                                           const program::Program& program,
                                                           const Stage& stage,
                                                           const DeviceLimits& limits);

}  // namespace sinter::matmul
