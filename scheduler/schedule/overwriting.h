#pragma once

#include <optional>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Rows that the slots of a block take together; behind the last row they read that one again.
int64_t rows_of_slots(const Schedule& schedule);

/// Why a schedule would overwrite what it still has to read. Nothing: it does not.
std::optional<Rejection> check_in_place(const SegmentFacts& facts, const Schedule& schedule);

}  // namespace sinter
