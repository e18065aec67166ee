#pragma once

#include "scheduler/families/family.h"

namespace sinter::matmul {

/// The schedules that a segment is offered. Needs: refuse_matmul() and check_device() accept it.
Proposal offers(const SegmentFacts& facts, const DeviceLimits& limits);

}  // namespace sinter::matmul
