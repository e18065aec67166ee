#pragma once

#include <boost/container/static_vector.hpp>

#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

// Where a function takes a StageList it is distribute(facts, schedule.kept): the same for
// every schedule that keeps the same values, so whoever tries many computes it once.

/// Resources of a row schedule that do not depend on the promised blocks per SM or the size of a
/// persistent grid.
struct RowNeeds {
  int64_t registers = 0;  ///< Per thread, as ptxas is expected to allocate without a cap.
  int64_t tile = 0;       ///< Part of them that holds loaded elements.
  int64_t prefetched_registers = 0;  ///< Part of them that ptxas takes only if the cap leaves room.
  int64_t shared_bytes = 0;
};

RowNeeds row_needs(const SegmentFacts& facts, const Schedule& schedule, const StageList& list);
/// The same for one of many schedules. `registers` is of the same list.
RowNeeds row_needs(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
                   StageRegisters& registers);

/// Resources of a row schedule with legal fields. `needs` are row_needs().
ResourceEstimate estimate_row_resources(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const RowNeeds& needs,
                                        const DeviceLimits& limits);

ResourceEstimate estimate_row_resources(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const DeviceLimits& limits);

/// Most elements of a row in a thread's registers for which a register cap below the estimate is
/// offered. With more, ptxas 13.0 spills on sm_90a (docs/experiments/constants_cost.md).
inline constexpr int64_t kPrefetchedElements = 32;

using Occupancies = boost::container::static_vector<int64_t, 3>;
/// Values of min_blocks_per_sm to try: what the estimated registers and shared memory allow, and
/// one and two more while the compiler can reduce the registers that far.
Occupancies occupancies(const SegmentFacts& facts, const Schedule& schedule, const RowNeeds& needs,
                        const DeviceLimits& limits);

}  // namespace sinter
