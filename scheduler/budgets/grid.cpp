#include "scheduler/budgets/grid.h"

#include <algorithm>

namespace sinter {

std::optional<Rejection> check_cluster_size(const Schedule& schedule, const DeviceLimits& limits) {
  const int64_t cluster = schedule.cluster_size();
  if (cluster == 1) return std::nullopt;
  const auto broken = [&](auto... said) { return rejected(schedule, said...); };
  if (limits.most_cluster_blocks == 1) {
    return broken("the device has no thread-block clusters", limits.compute_major, 9,
                  "compute capability", "use cluster_size 1");
  }
  if (!is_power_of_two(cluster) || cluster > limits.most_cluster_blocks) {
    return broken("the blocks of a cluster are no power of two, or more than the device runs",
                  cluster, limits.most_cluster_blocks, "blocks", "use a smaller power of two");
  }
  if (cluster_capacity(limits, cluster, 1) < cluster) {
    return broken("no cluster of so many blocks finds a place on the device's SMs", cluster,
                  limits.sm_count, "SMs", "use smaller clusters");
  }
  if (schedule.persistent_blocks % cluster != 0) {
    return broken("the grid is not made of whole clusters", schedule.persistent_blocks % cluster, 0,
                  "blocks left over", "make persistent_blocks a multiple of cluster_size");
  }
  return std::nullopt;
}

int64_t largest_unstranded_cluster(const DeviceLimits& limits) {
  return std::min(limits.most_cluster_blocks, kPortableClusterBlocks);
}

std::vector<int64_t> cluster_sizes(int64_t largest,
                                   const std::function<bool(int64_t)>& worth_doubling) {
  std::vector<int64_t> sizes = {1};
  while (sizes.back() < largest && worth_doubling(sizes.back())) sizes.push_back(2 * sizes.back());
  return sizes;
}

DependentLaunch partials_dependent_launch(const SegmentFacts& facts, const DeviceLimits& limits) {
  return facts.has_outer() && limits.has_dependent_launch ? DependentLaunch::kTrigger
                                                          : DependentLaunch::kNone;
}

int64_t persistent_grid(const SegmentFacts& facts, const Schedule& schedule,
                        const DeviceLimits& limits) {
  const int64_t needed = (facts.space.rows + schedule.rows_per_block - 1) / schedule.rows_per_block;
  if (schedule.cluster_size() == 1)
    return std::clamp<int64_t>(needed, 1, schedule.min_blocks_per_sm * limits.sm_count);
  const int64_t most =
      cluster_capacity(limits, schedule.cluster_size(), schedule.min_blocks_per_sm);
  return std::clamp(needed * schedule.cluster_size(), schedule.cluster_size(),
                    std::max(most, schedule.cluster_size()));
}

}  // namespace sinter
