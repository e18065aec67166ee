#pragma once

#include <cstdint>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Registers per thread that ptxas is expected to give a row or pointwise schedule without a cap.
/// `list` is the distribution under the schedule's persistent values.
///
/// A linear model of the values alive at once in the widest stage. Its constants are fitted to
/// ptxas 13.0 over 2,300 schedules, random and chosen, of all canned fusions for sm_80, sm_89,
/// sm_90a, sm_100a and sm_120a. `sinter_budget_truth` measures the error again, and
/// tests/integration/nvrtc_sweep_test.cpp bounds it.
int64_t estimate_registers(const SegmentFacts& facts, const Schedule& schedule,
                           const StageList& list);

/// Part of these registers that ptxas takes only if the cap leaves room: an unrolled row prefetches
/// accumulators from shared memory. 0 for other schedules.
int64_t estimate_prefetch_registers(const SegmentFacts& facts, const Schedule& schedule);

/// Part of these registers that holds loaded elements: values kept in registers, and the vectors in
/// flight at once. Loads stay in order, so ptxas cannot do with fewer.
int64_t estimate_tile_registers(const SegmentFacts& facts, const Schedule& schedule,
                                const StageList& list);

}  // namespace sinter
