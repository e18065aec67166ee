#pragma once

#include <optional>

#include "scheduler/families/family.h"

namespace sinter {

/// Rows that the row slots of a block process together. Slots beyond the last row read that row
/// again.
int64_t rows_of_slots(const Schedule& schedule, const Family& family);

/// Why a schedule would overwrite data that it still has to read. Empty: it does not.
std::optional<Rejection> check_in_place(const SegmentFacts& facts, const Schedule& schedule,
                                        const Family& family);

}  // namespace sinter
