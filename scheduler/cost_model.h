#pragma once

#include <vector>

#include "scheduler/decision.h"
#include "scheduler/device_limits.h"
#include "scheduler/resources.h"
#include "scheduler/segment_facts.h"

namespace sinter {

// Predicted microseconds of one kernel:
//
//   total = launch + max(memory, L2, issue, special, shared) + exposed + spill
//   exposed = waves x latency of one block / (blocks resident on an SM ^ 1.2)
//
// Memory time is bytes over the bandwidth that a mix of reads and writes reaches. A block's latency
// is its chain of dependent waits: loads, row barriers, and its own instructions. While one block
// waits, the others resident on its SM work, so each block exposes its share only. Fitted to 380
// timed schedules of four kernels on an H200: 3.7 % mean error (benchmarks/README.md).

/// Latencies and overheads of the model, in nanoseconds unless named otherwise, fitted to those
/// timings.
struct CostConstants {
  double launch_us = 2.0;         ///< Empty kernel between two events.
  double block_start_ns = 300.0;  ///< From a free slot to the next block's first load, and drain.
  double first_load_ns = 190.0;   ///< What stays exposed of the row's arrival after that.
  double chunk_ns = 500.0;        ///< Each further chunk that a looped row waits for.
  double tile_vector_ns =
      200.0;  ///< Each vector that a thread of a pointwise tile loads and stores.
  double shared_chunk_ns = 18.0;     ///< Each chunk of a row that waits in shared memory.
  double cache_latency_ns = 250.0;   ///< A chunk of one weight vector, which hits L2.
  double warp_exchange_ns = 35.0;    ///< Five dependent shuffles and combinations.
  double block_exchange_ns = 100.0;  ///< Warp exchange, barrier, second shuffle round.
  double hiding_exponent = 1.2;      ///< Of the blocks that hide each other's waits.
  /// Each 32-bit word of the row that a thread loads into registers, not hidden by other blocks:
  /// rows in registers run 2 to 3 us behind rows that asynchronous copies bring to shared memory,
  /// in proportion to words and waves.
  double register_load_ns = 12.0;
  double own_issue_share =
      0.35;  ///< Share of a block's issue time that its other warps do not hide.
  /// Share of issue slots that dependent code fills with enough warps resident.
  double issue_efficiency = 0.75;
  /// Address arithmetic, predicate and the access itself, per vector; from SASS.
  double instructions_per_access = 4.0;
  /// Coordinates, exchange and row scalars of one thread of a row kernel; from SASS.
  double row_prologue_instructions = 60.0;
  /// Coordinates and bounds of one thread of a pointwise kernel; from SASS.
  double tile_prologue_instructions = 30.0;
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
  double unhidden_ns = 0.0;       ///< What each wave of blocks waits whatever else is resident.
  friend bool operator==(const WorkEstimate&, const WorkEstimate&) = default;
};

Prediction predict(const WorkEstimate& work, const ResourceEstimate& estimate,
                   const DeviceLimits& limits, const CostConstants& constants = {});

/// Bandwidth in bytes per microsecond for a mix of reads and writes: a read-only kernel reaches
/// read_efficiency of the data-sheet figure, an even mix copy_efficiency, and so do writes.
double mixed_bandwidth(const DeviceLimits& limits, double bytes_read, double bytes_written);

}  // namespace sinter
