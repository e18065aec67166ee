#pragma once

#include <vector>

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

// Predicted microseconds of one kernel. docs/cost_model.md states the formulas and gives the
// measurements behind many of the constants, which DeviceLimits::cost has.
//
// Persistent grids:
//   total = launch + max(DRAM, L2, issue, SFU, shared) + exposed + spill
//   exposed = waves x critical path of one block / resident blocks per SM;
//             blocks without barriers count by their warps
//
// Non-persistent grids: throughput and latency join as a p-norm, whose p grows with the resident
// blocks:
//   total = launch + (max(...)^p + ((waves - 1) x critical path)^p)^(1/p) + last wave + spill
//
// Pointwise tiles load once, so each block also takes the idle DRAM latency: the throughput and
// (waves - 1) x (critical path + that latency) overlap as in pipelines (overlapped_time()).

/// What a family knows about a schedule beyond its resources.
struct WorkEstimate {
  double bytes_read = 0.0;  ///< From DRAM; repeated reads count each time they miss L2.
  double bytes_written = 0.0;
  double l2_bytes = 0.0;            ///< Between SMs and L2, repeated accesses included.
  double issue_slots = 0.0;         ///< Thread instructions in all.
  double special = 0.0;             ///< Special-function results in all.
  double fetched_text_bytes = 0.0;  ///< Instruction-cache misses in all.
  double shared_bytes = 0.0;        ///< Shared-memory traffic in all.
  double partial_bytes = 0.0;       ///< Partial results of outer reductions: written, then read.
  double last_block_us = 0.0;       ///< Last-block finish; 0: a second kernel finishes.
  ReadPriority read_priority = ReadPriority::kNormal;  ///< Of all row-wide reads.
  double block_latency_ns = 0.0;                       ///< Critical path of one block.
  /// Latency in a loop without barriers, which warps hide (CostConstants::free_warps).
  double free_latency_ns = 0.0;
  /// Non-persistent grids: dependent instructions of each thread; selects the formula of
  /// NonPersistentGrid. 0: a persistent grid.
  double thread_instructions = 0.0;
  double start_us = 0.0;          ///< Start of the first block beyond a launch; negative where a
                                  ///< dependent launch overlaps with the kernel before.
  double uneven_us = 0.0;         ///< Persistent grids: DRAM idle in a last round of few rows.
  double rounds = 1.0;            ///< Rows per block, one after the other. Each repeats the spills.
  double end_ns = 0.0;            ///< Once per block, after its last row.
  double element_slots = 0.0;     ///< Of issue_slots, those per element, each once.
  double rows_at_once = 1.0;      ///< Rows in flight on an SM with all threads resident.
  bool walks_rows = false;        ///< Keeps nothing of a row: every stage loads it by chunks.
  bool reads_rows_again = false;  ///< Several stages load elements that are not kept.
  double missed_again = 0.0;      ///< L1 miss rate of those second reads.
  bool loads_late = false;        ///< ptxas issues some loads of the row after the first use.
  bool waits_for_copies = false;  ///< Waits for async copies of whole rows before the first use.
  double narrow_copy_bytes = 0.0;  ///< Copied to shared memory in pieces below 16 bytes.
  bool has_barriers = true;        ///< The warps of a block synchronise in every row.
  bool loads_once = false;         ///< A pointwise tile: loads, waits, stores, ends.
  friend bool operator==(const WorkEstimate&, const WorkEstimate&) = default;
};

Prediction predict(const WorkEstimate& work, const ResourceEstimate& estimate,
                   const DeviceLimits& limits);

/// Microseconds of a throughput and a chain of latencies that overlap in part: their p-norm.
double overlapped_time(double throughput_us, double chain_us, const CostConstants& constants);

/// Bandwidth of a mix of reads and writes, in bytes per microsecond: reads alone reach
/// read_efficiency of the data-sheet figure, an even mix and writes copy_efficiency.
double mixed_bandwidth(const DeviceLimits& limits, double bytes_read, double bytes_written);

/// Microseconds by which the first block starts after (in clusters) or before (dependent launch)
/// launch and ramp alone would let it.
double start_time(const Schedule& schedule, const CostConstants& constants);

/// Microseconds by which a kernel ends earlier behind another kernel if it starts by dependent
/// launch (DependentLaunch::kWait): its launch and ramp overlap with the end of that kernel.
double saved_behind_another(const CostConstants& constants);

/// Limits by which the kernels of a plan compare as kernels behind others: their launches are
/// shorter by saved_behind_another(), where the device has dependent launches.
DeviceLimits behind_another(DeviceLimits limits);

/// Nanoseconds of an exchange across the blocks of a cluster; 0 for one block.
double cluster_exchange_time(int64_t cluster_size, const CostConstants& constants);

/// Microseconds of DRAM traffic under an eviction priority of the reads.
double memory_time(const DeviceLimits& limits, double bytes_read, double bytes_written,
                   ReadPriority priority);

/// Microseconds in which the busy SMs, with enough warps, issue that many thread instructions.
double issue_time(double issue_slots, const DeviceLimits& limits, double busy_sms);

/// Microseconds in which the busy SMs read so many bytes from L2, at best.
double l2_read_time(const DeviceLimits& limits, double bytes, double busy_sms);

/// Microseconds of a second kernel that combines partial results.
double second_kernel_time(double partial_bytes, const DeviceLimits& limits);

/// True if the inputs of a column kernel are taken to lie in L2, left there by an earlier kernel.
bool columns_come_from_l2(const SegmentFacts& facts, const DeviceLimits& limits);

/// Lower bound in microseconds of every prediction for the segment: launch, the ramp where nothing
/// hides it, and its bytes moved once at the best bandwidth.
double least_time(const SegmentFacts& facts, const DeviceLimits& limits);

}  // namespace sinter
