#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "scheduler/families/family.h"

namespace sinter {

/// Draws a random legal schedule, for tests that must hold for all schedules and not only for those
/// a family proposes: 1 ... 1024 threads per row, any rows per block, vector widths, unrolling, row
/// access modes, minimum blocks per SM, and any residency of each persistent value. Persistent
/// values are those of the minimum cut or another set.
///
/// The result depends on the arguments alone, in every process. An empty `family` means any of the
/// set. Returns no value if a bounded number of draws finds no schedule that verify_schedule
/// accepts.
std::optional<ProposedSchedule> random_schedule(const SegmentFacts& facts,
                                                const DeviceLimits& limits,
                                                const FamilySet& families, uint64_t seed,
                                                std::string_view family = "");

}  // namespace sinter
