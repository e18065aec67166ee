#include "scheduler/cost/last_block_time.h"

#include <algorithm>
#include <cmath>

#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/last_block.h"

namespace sinter {
double last_block_time(const SegmentFacts& facts, const Schedule& schedule,
                       const DeviceLimits& limits) {
  const CostConstants& constants = limits.cost;
  constexpr double kNsPerUs = 1000.0;
  const LastBlockGeometry geometry = last_block_geometry(facts, schedule);
  const auto passes = static_cast<double>(
      geometry.rounds() * divided_up(geometry.rows, geometry.slots * geometry.unroll));
  const auto loaded =
      static_cast<double>(geometry.across * geometry.slots * geometry.unroll * kRegisterBytes *
                          accumulator_words(facts, geometry.vector_width));
  const double pass_ns =
      std::max(constants.row.cache_latency_ns,
               loaded / (constants.last_block_bytes_per_clock * limits.clock_mhz) * kNsPerUs);
  const double levels = std::log2(static_cast<double>(geometry.slots));
  const double tree_ns =
      static_cast<double>(geometry.rounds()) * levels * constants.row.block_exchange_ns;
  return (constants.last_block_ns + passes * pass_ns + tree_ns) / kNsPerUs;
}

void add_finish(const SegmentFacts& facts, const Schedule& schedule, const DeviceLimits& limits,
                WorkEstimate& work) {
  work.partial_bytes =
      static_cast<double>(partial_rows(facts, schedule) * partial_elements(facts) * kRegisterBytes);
  work.bytes_written += work.partial_bytes;
  if (schedule.finish == Finish::kLastBlock)
    work.last_block_us = last_block_time(facts, schedule, limits);
}

}  // namespace sinter
