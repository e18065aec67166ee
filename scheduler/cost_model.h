#pragma once

#include <vector>

#include "scheduler/decision.h"
#include "scheduler/device_limits.h"
#include "scheduler/resources.h"
#include "scheduler/segment_facts.h"

namespace sinter {

// Predicted microseconds of one kernel:
//
//   total = launch + max(memory, L2, issue, special, shared, pipeline) + drain + spill
//   pipeline = waves x latency of one block, where a block's latency is its chain of dependent
//   waits drain = half a block's latency, in which a device that starts or ends asks for half of
//   what it could exposed = drain, and what pipeline adds above the largest of the throughput terms
//
// Memory time is bytes over the bandwidth that a mix of reads and writes reaches. The pipeline term
// is Little's law in another form: an SM that holds few blocks, each waiting for its loads, asks
// for too few bytes at once.

/// Latencies and overheads of the model, in nanoseconds unless named otherwise. Measured on an H200
/// by benchmarks/: see each.
struct CostConstants {
  double launch_us =
      2.2;  ///< Graph replay of an empty kernel between two events, with ramp-up and drain.
  double block_start_ns =
      350.0;  ///< From a free slot to the first instruction of the next block, and its drain.
  double cache_latency_ns = 300.0;  ///< A load that hits L2.
  double warp_exchange_ns = 75.0;   ///< Five dependent shuffles and combinations.
  double block_exchange_ns =
      220.0;  ///< Warp exchange, shared-memory write, barrier, read, second shuffle round.
  double issue_efficiency =
      0.75;  ///< Share of issue slots that dependent code fills with enough warps resident.
  double instructions_per_access =
      4.0;  ///< Address arithmetic, predicate and the access itself, per vector.
  friend bool operator==(const CostConstants&, const CostConstants&) = default;
};

/// What a family knows about one schedule beyond its resources.
struct WorkEstimate {
  double bytes_read = 0.0;  ///< From memory, repeated reads counted each time they miss L2.
  double bytes_written = 0.0;
  double l2_bytes = 0.0;          ///< Between SMs and L2: all reads and writes, repeated ones too.
  double issue_slots = 0.0;       ///< Thread instructions in all.
  double special = 0.0;           ///< Special-function results in all.
  double shared_bytes = 0.0;      ///< Shared-memory traffic in all.
  double block_latency_ns = 0.0;  ///< Chain of waits of one block.
  friend bool operator==(const WorkEstimate&, const WorkEstimate&) = default;
};

Prediction predict(const WorkEstimate& work, const ResourceEstimate& estimate,
                   const DeviceLimits& limits, const CostConstants& constants = {});

/// Bandwidth in bytes per microsecond for a mix of reads and writes: a read-only kernel reaches
/// read_efficiency of the data-sheet figure, an even mix copy_efficiency, and so do writes.
double mixed_bandwidth(const DeviceLimits& limits, double bytes_read, double bytes_written);

}  // namespace sinter
