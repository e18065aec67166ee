#pragma once

#include <string_view>

#include "scheduler/families/family.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Multi-wave: the row is resident. It is read from memory once and written once. Every value that
/// several stages need is kept in between, as the minimum cut says, packed in registers or in
/// shared memory. A block takes one row, or several short rows. Other resident blocks hide the
/// latency of each row barrier. A persistent block that walks over rows may prefetch the next row
/// into registers while it works on the current one (prefetch_rows). Its accumulators over the rows
/// lie in registers, or in shared memory if the registers cannot hold them next to a row. Rows too
/// long for both are read again.
///
/// Use: a stage after a row barrier needs the row again, and a thread's share of the row fits its
/// registers, or the row fits shared memory. Segments without a second stage belong to the looped
/// family, since no value need be resident.
///
/// Rejects: no reduction; no value crosses a barrier; a row beyond registers and shared memory.
Proposal propose_multi_wave(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_multi_wave(const SegmentFacts& facts,
                                                              const Schedule& schedule,
                                                              const DeviceLimits& limits);

}  // namespace sinter
