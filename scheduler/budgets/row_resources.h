#pragma once

#include <vector>

#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

// Where a function takes a StageList it is distribute(facts, schedule.kept): the same for
// every schedule that keeps the same values, so whoever tries many computes it once.

/// What the threads and blocks of a row schedule need, however many blocks are promised, or run if
/// it has a persistent grid.
struct RowNeeds {
  int64_t registers = 0;  ///< Per thread, as ptxas is expected to allocate without a cap.
  int64_t tile = 0;       ///< Of them, those that hold loaded elements.
  int64_t prefetched_registers =
      0;  ///< Of them, those that it takes only where the cap leaves them.
  int64_t shared_bytes = 0;
};

RowNeeds row_needs(const SegmentFacts& facts, const Schedule& schedule, const StageList& list);

/// Resources of a row schedule whose fields are legal. `needs` are row_needs().
ResourceEstimate estimate_row_resources(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const RowNeeds& needs,
                                        const DeviceLimits& limits);

ResourceEstimate estimate_row_resources(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const DeviceLimits& limits);

/// Elements of a row that a thread keeps in registers up to which the compiler does with fewer than
/// it wants. RMS-norm gradients with 64 spilled 160 bytes under a cap of 168 that was estimated to
/// do with 147, a softmax with 256 spilled 724 (ptxas 13.0, sm_90a).
inline constexpr int64_t kPrefetchedElements = 32;

/// Numbers of blocks per SM worth promising to the compiler: what the estimated registers and
/// shared memory allow, and one and two more as long as the compiler can squeeze the registers that
/// far.
std::vector<int64_t> occupancies(const SegmentFacts& facts, const Schedule& schedule,
                                 const RowNeeds& needs, const DeviceLimits& limits);

}  // namespace sinter
