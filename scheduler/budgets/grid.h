#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "scheduler/budgets/device_limits.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// Rejects clusters of a size that the device does not run, and grids that are not made of whole
/// ones.
std::optional<Rejection> check_cluster_size(const Schedule& schedule, const DeviceLimits& limits);

/// Blocks of the largest cluster that finds a place on most SMs: larger ones leave a sixth of them
/// over, and are offered only for rows that fill smaller ones, or left to pins.
int64_t largest_unstranded_cluster(const DeviceLimits& limits);

/// 1, and its doubles up to `largest` as long as `worth_doubling` says so of the one before.
std::vector<int64_t> cluster_sizes(int64_t largest,
                                   const std::function<bool(int64_t)>& worth_doubling);

/// A kernel that leaves partial results lets the one that finishes them start beside it, where the
/// device can: its launch is then over when the last row is.
DependentLaunch partials_dependent_launch(const SegmentFacts& facts, const DeviceLimits& limits);

/// Blocks of a persistent grid: as many as are resident at once, or as the rows fill.
int64_t persistent_grid(const SegmentFacts& facts, const Schedule& schedule,
                        const DeviceLimits& limits);

}  // namespace sinter
