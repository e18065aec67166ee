#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "scheduler/budgets/device_limits.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// Rejects cluster sizes that the device does not run, and grids that are no multiple of the
/// cluster.
std::optional<Rejection> check_cluster_size(const Schedule& schedule, const DeviceLimits& limits);

/// Largest cluster, in blocks, that can use most SMs. Larger clusters leave a sixth of the SMs
/// idle. They are offered only for rows that fill smaller clusters, or by pins.
int64_t largest_unstranded_cluster(const DeviceLimits& limits);

/// 1 and its doublings up to `largest`, as long as `worth_doubling` is true for the size before.
std::vector<int64_t> cluster_sizes(int64_t largest,
                                   const std::function<bool(int64_t)>& worth_doubling);

/// Dependent launch of a kernel that writes partial results: it lets the kernel that combines them
/// start early, if the device can. That kernel's launch latency then overlaps with the last rows.
DependentLaunch partials_dependent_launch(const SegmentFacts& facts, const DeviceLimits& limits);

/// Blocks of a persistent grid: as many as are resident at once, or fewer if the rows need fewer.
int64_t persistent_grid(const SegmentFacts& facts, const Schedule& schedule,
                        const DeviceLimits& limits);

}  // namespace sinter
