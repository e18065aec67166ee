#pragma once

#include <string_view>

#include "scheduler/families/family.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Multi-wave: the row is resident. One read from memory, one write; between them every value that
/// several stages need is kept, as the minimum cut says, packed in registers or in shared memory.
/// One block per row, or several short rows per block; other resident blocks hide the wait at each
/// row barrier. A persistent block that walks rows may have the next one on its way into registers
/// while it works on the one before (prefetch_rows). What it accumulates over its rows lies in
/// registers, or in shared memory where those hold no row beside it; rows too long for both are
/// then read again.
///
/// When it is the answer: a stage after a row barrier needs the row again, and a thread's share of
/// it fits its registers, or the row fits shared memory. Segments without a second stage are
/// looped's: nothing need be resident. Rejects: no reduction; nothing crosses a barrier; a row
/// beyond registers and shared memory.
Proposal propose_multi_wave(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_multi_wave(const SegmentFacts& facts,
                                                              const Schedule& schedule,
                                                              const DeviceLimits& limits);

}  // namespace sinter
