#pragma once

#include <vector>

#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/budgets/resources.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

// Predicted microseconds of one kernel. docs/cost_model.md states the formulas and gives the
// measurements behind many of the constants.
//
// Persistent grids:
//   total = launch + max(DRAM, L2, issue, SFU, shared) + exposed + spill
//   exposed = waves x critical path of one block / (resident blocks per SM ^ hiding_exponent);
//             blocks without barriers count by their warps
//
// Non-persistent grids: throughput and latency join as a p-norm, whose p grows with the resident
// blocks:
//   total = launch + (max(...)^p + ((waves - 1) x critical path)^p)^(1/p) + last wave + spill
//
// Pointwise tiles load once, so each block also takes the idle DRAM latency: (waves - 1) x
// (critical path + that latency) joins the throughput with the exponent most_overlap.

/// Latencies along a row, in nanoseconds, and instructions that are not per element.
struct RowConstants {
  double block_start_ns = 300.0;     ///< Block launch to first load, and drain of the block.
  double first_load_ns = 190.0;      ///< Exposed part of the row's first load after that.
  double chunk_ns = 500.0;           ///< Each further chunk loaded from DRAM or L2.
  double l1_chunk_ns = 40.0;         ///< Each chunk of a second pass that hits L1.
  double shared_chunk_ns = 18.0;     ///< Each chunk kept in shared memory.
  double cache_latency_ns = 250.0;   ///< A chunk of one weight vector, which hits L2.
  double warp_exchange_ns = 35.0;    ///< Warp reduction: five dependent shuffles and additions.
  double block_exchange_ns = 100.0;  ///< Block reduction: warp reduction, barrier, second round.
  double warps_doubling_ns = 0.0;    ///< Block reduction, per doubling of warps beyond four.
  /// Coordinates and row scalars, per thread; from SASS.
  double prologue_instructions = 50.0;
  /// Block reduction without its combinations, per thread: store of the tuple, barrier, load of
  /// another one; from SASS.
  double exchange_instructions = 12.0;
  friend bool operator==(const RowConstants&, const RowConstants&) = default;
};

/// Non-persistent grids. Fitted to benchmarks/results/h200_2026-11-24_suite_sweep.json, but for the
/// latencies along a row, which are those of persistent grids; warps_doubling_ns and
/// draining_ns_per_byte were chosen by the regret on both cards.
struct NonPersistentGrid {
  /// warps_doubling_ns, where warps keep a row: a barrier waits for the slowest of them.
  RowConstants row{.warps_doubling_ns = 130.0};
  double clocks_per_instruction = 1.58;  ///< Of a thread's dependent instruction chain.
  /// Cost of 8-byte copies to shared memory beyond that of 16-byte copies, as bytes per clock and
  /// SM.
  double narrow_copy_bytes_per_clock = 92.0;
  /// p = 1 + overlap x (resident blocks - 1 + lone_overlap) ^ overlap_growth, at most most_overlap.
  double overlap = 0.84;
  double overlap_growth = 0.48;
  double most_overlap = 3.7;
  /// Latency hiding among the warps of a single resident block, in units of one further block. 0
  /// for schedules that wait for copies of whole rows.
  double lone_overlap = 0.1;
  /// Thread instructions per byte at which an H200 takes as long to issue as to load.
  double balanced_slots_per_byte = 5.3;
  /// Reductions that store nothing along the row: fractional increase of DRAM time per doubling of
  /// the rows in flight on an SM, scaled by (1 - compute / memory)^3.
  double row_doubling_share = 0.015;
  /// The same per doubling of the bytes in flight beyond saturations_before_queueing times what
  /// saturates DRAM. Only for rows that are loaded whole. All threads of a full SM count, even
  /// those for which registers leave no room, so that more registers never predict a slower plan.
  double oversaturation_share = 0.03;
  double saturations_before_queueing = 1.4;
  /// Compute as a share of DRAM time at which such reductions expose their whole latency. Below it
  /// the exposed part falls with the square of the share.
  double waiting_compute_share = 0.4;
  /// Share of a block's critical path that is exposed after the throughput-bound part; less for
  /// grids of fewer blocks than SMs.
  double last_share = 0.9;
  double busy_warps = 41.8;       ///< Resident warps of an SM that reach issue_efficiency.
  double warps_exponent = 0.126;  ///< Issue time grows by (busy_warps / warps) ^ warps_exponent.
  /// A single resident block alternates between loading and computing: it adds this share of the
  /// shorter of DRAM and issue time.
  double alternation_share = 0.085;
  /// Nanoseconds of write-back from L2 that overlap the next wave's critical path and are
  /// subtracted from it, per byte that a wave writes on an SM.
  double draining_ns_per_byte = 0.014;
  /// Per doubling of the cluster: a free block slot waits for the slots of the other blocks, and
  /// every chunk waits for the slowest block.
  double cluster_gather_ns = 412.0;
  /// Fractional increase of DRAM time of schedules that read rows again, even where the second read
  /// hits L1.
  double second_reads_share = 0.02;
  /// Further fractional increase of DRAM time, times the L1 miss rate of the second reads.
  double missed_reads_share = 0.05;
  /// Idle DRAM latency as a share of the loaded latency (bytes_in_flight_per_sm by Little's law).
  double idle_latency_share = 0.4;
  /// Fractional increase of DRAM time for rows of elements of at most 16 bits with more than
  /// kLateLoadElements in a thread's registers: ptxas moves some of their loads behind the first
  /// use.
  double late_loads_share = 0.05;
  friend bool operator==(const NonPersistentGrid&, const NonPersistentGrid&) = default;
};

/// Latencies and overheads of the model, in nanoseconds unless the name says otherwise.
struct CostConstants {
  /// Fraction of the time added per spilled register, for the first most_spills_waited_for.
  double spill_share = 0.012;
  int64_t most_spills_waited_for = 12;
  double launch_us = 2.0;  ///< Empty kernel between two events.
  double ramp_us = 2.4;    ///< Until all SMs stream, and from the last load to the last store: the
                           ///< offset of the fitted line of DeviceLimits::copy_efficiency.
  RowConstants row{};      ///< Of persistent grids, and of all families without their own.
  NonPersistentGrid non_persistent{};
  double second_launch_us = 2.49;  ///< A dependent kernel of little work, with its drain and ramp.
  /// Last-block finish: nanoseconds from a block's last partial results to the branch of the last
  /// block. It spans two barriers, a fence under load, and the atomic.
  double last_block_ns = 1900.0;
  double last_block_bytes_per_clock = 43.0;  ///< L2 bandwidth of the one SM of the last block.
  /// Nanoseconds of one row of a consumer warp group: its waits and exchange, each instruction of a
  /// thread, each warp in the exchange, and each vector of weights from cache. All pipeline_*
  /// constants, those of clusters and second_launch_us are fitted together.
  double pipeline_row_ns = 228.0;
  double pipeline_instruction_ns = 0.246;
  double pipeline_warp_ns = 27.7;
  double pipeline_weight_ns = 47.6;
  /// Fractional increase of a row's time per fraction by which its threads want more registers than
  /// the launch gives. The compiler schedules for the launch's count, whatever setmaxnreg adds.
  /// Threads want pipeline_wanted_registers times the estimate, to have loads in flight before the
  /// first use.
  double pipeline_register_limit = 0.388;
  double pipeline_wanted_registers = 1.53;
  double pipeline_overlap_exponent = 3.0;  ///< Joins throughput and the rows' critical path.
  double pipeline_memory_share = 0.928;    ///< DRAM time relative to loads by all threads.
  /// Fill of the pipeline: a group waits for its first row for this share of the time in which all
  /// stages of all blocks arrive.
  double pipeline_fill_share = 0.813;
  /// Bytes in flight that saturate DRAM, as a multiple of what arrives in memory_wait_ns: a stage
  /// is released one row at a time. If only the rows in use are resident and no load is in flight,
  /// DRAM time grows by the penalty.
  double pipeline_bytes_in_flight = 6.51;
  double pipeline_starved_penalty = 0.086;
  double pipeline_refill_ns = 1360.0;  ///< From the release of a stage to the next row in it.
  /// Bytes in flight on an SM from which more slow DRAM down, and the fractional increase per as
  /// many again.
  double pipeline_full_bytes = 116736.0;
  double pipeline_overfull_penalty = 0.0561;
  /// Warps of an SM that reach issue_efficiency, and the exponent with which issue time grows with
  /// fewer.
  double pipeline_busy_warps = 8.08;
  double pipeline_warps_exponent = 0.359;
  /// Share of L1 that keeps rows for a second read; writes, weights and later rows take the rest.
  double l1_row_share = 0.5;
  /// How fast the hit rate falls once the resident rows outgrow that share: a cyclic pattern
  /// thrashes, so hits fall faster than in proportion.
  double l1_thrash = 1.6;
  /// DRAM time per GB added by reads of normal priority, at an even mix of reads and writes: L2
  /// then alternates between write-backs and reads. A cost per GB holds for both cards; a share of
  /// DRAM time would differ.
  double normal_read_us_per_gb = 6.5;
  /// Traffic, as a share of L2, up to which normal_read_us_per_gb does not apply: L2 has room for
  /// the writes. Inputs of a column kernel are then taken to be in L2 already
  /// (columns_come_from_l2).
  double l2_room_share = 0.4;
  /// Dirty L2 lines of earlier kernels, in bytes: reads that evict them wait for the write-back.
  /// Scaled by the square of the traffic's share of L2, at most 1. If the kernel writes, also
  /// scaled by the fourth power of the distance from an even mix. Not for reads that ask for
  /// evict_first.
  double dirty_line_bytes = 22e6;
  /// Fractional increase of DRAM time where reads ask for evict_first.
  double evict_first_penalty = 0.06;
  /// Nanoseconds from a DRAM read to its use, under load. A schedule with little in flight waits
  /// this long in each round of loads.
  double memory_wait_ns = 830.0;
  /// Fractional increase of DRAM time for column strips of zero width, falling linearly to none at
  /// 128 bytes: each row of a strip opens a DRAM page. Transposes use it too.
  double short_run_penalty = 0.4;
  /// Fractional increase of DRAM time of persistent grids whose blocks reduce several rows to
  /// totals: loads pause between rows. Not fitted for schedules that keep part of a row.
  double staying_share = 0.06;
  double tile_vector_ns = 200.0;  ///< Each vector that a thread of a pointwise tile moves.
  /// Nanoseconds of an exchange across a cluster: a remote store and the phase of the mbarrier, and
  /// what each doubling of the cluster adds because the slowest block counts.
  double cluster_exchange_ns = 257.0;
  double cluster_doubling_ns = 96.4;
  /// Start of a kernel with clusters: blocks start together and synchronise before the first store.
  double cluster_start_us = 0.54;
  double hiding_exponent = 1.2;  ///< Latency hiding by resident blocks.
  /// Warps that hide as much latency as one block where rows have no barrier.
  double free_warps = 4.0;
  double own_issue_share = 0.35;  ///< Share of a block's issue time that its warps do not hide.
  /// Share of issue slots that dependent code fills with enough warps resident.
  double issue_efficiency = 0.75;
  /// Address arithmetic, predicate and the access, per vector; from SASS.
  double instructions_per_access = 4.0;
  /// Per dimension of the columns beyond the first: quotient by a constant, remainder, 64-bit
  /// multiply-add; from PTX.
  double column_split_instructions = 7.0;
  double instruction_bytes = 16.0;  ///< Volta and later.
  /// Instructions of the slow path of a fast-path logarithm, beyond the repetition of its element:
  /// the library's function (codegen/device/numeric.cuh); from SASS.
  double careful_logarithm_instructions = 18.0;
  /// The same in a loop that leaves elements for a store and tests each argument; from SASS.
  double asked_logarithm_instructions = 28.0;
  /// Code size of a row kernel beyond its elements, in instructions (NVRTC 13.0).
  double text_beside_elements = 600.0;
  /// Instruction cache of an SM in bytes, and the rate in bytes per clock at which the SM fetches
  /// code beyond it again in every block.
  double kept_text_bytes = 65536.0;
  double text_bytes_per_clock = 48.0;
  /// Coordinates and bounds of one thread of a pointwise kernel; from SASS.
  double tile_prologue_instructions = 30.0;
  /// Each step of a block's search for its tensor of a list, in nanoseconds and instructions. A
  /// step cuts the members into kListSearchParts parts with seven times a read, a comparison and a
  /// selection. Its addresses depend on the step before. 89 cycles for a constant that hits L1.5
  /// (Jia et al., arXiv 1804.06826, table 3.1) and seven selections, at 1,755 MHz; not timed.
  double search_step_ns = 70.0;
  double search_step_instructions = 21.0;
  friend bool operator==(const CostConstants&, const CostConstants&) = default;
};

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
  double start_us = 0.0;   ///< Start of the first block beyond a launch; negative where a
                           ///< dependent launch overlaps with the kernel before.
  double uneven_us = 0.0;  ///< Persistent grids: DRAM idle in a last round of few rows and between
                           ///< rows (CostConstants::staying_share).
  double turns = 1.0;      ///< Rows per block, one after the other. Each repeats the spills.
  double end_ns = 0.0;     ///< Once per block, after its last row.
  double element_slots = 0.0;  ///< Of issue_slots, those per element, each once.
  double rows_at_once = 1.0;   ///< Rows in flight on an SM with all threads resident.
  /// Bytes in flight on such an SM if blocks load their rows whole; 0 if rows are loaded in several
  /// chunks.
  double row_bytes_at_once = 0.0;
  bool walks_rows = false;         ///< Keeps nothing of a row: every stage loads it by chunks.
  bool reads_rows_again = false;   ///< Several stages load elements that are not kept.
  double missed_again = 0.0;       ///< L1 miss rate of those second reads.
  bool loads_late = false;         ///< ptxas issues some loads of the row after the first use.
  bool waits_for_copies = false;   ///< Waits for async copies of whole rows before the first use.
  double narrow_copy_bytes = 0.0;  ///< Copied to shared memory in pieces below 16 bytes.
  bool has_barriers = true;        ///< The warps of a block synchronise in every row.
  bool loads_once = false;         ///< A pointwise tile: loads, waits, stores, ends.
  friend bool operator==(const WorkEstimate&, const WorkEstimate&) = default;
};

Prediction predict(const WorkEstimate& work, const ResourceEstimate& estimate,
                   const DeviceLimits& limits, const CostConstants& constants = {});

/// Bandwidth of a mix of reads and writes, in bytes per microsecond: reads alone reach
/// read_efficiency of the data-sheet figure, an even mix and writes copy_efficiency.
double mixed_bandwidth(const DeviceLimits& limits, double bytes_read, double bytes_written);

/// Microseconds by which the first block starts after (in clusters) or before (dependent launch)
/// launch and ramp alone would let it.
double start_time(const Schedule& schedule, const CostConstants& constants = {});

/// Nanoseconds of an exchange across the blocks of a cluster; 0 for one block.
double cluster_exchange_time(int64_t cluster_size, const CostConstants& constants = {});

/// Microseconds of DRAM traffic under an eviction priority of the reads.
double memory_time(const DeviceLimits& limits, double bytes_read, double bytes_written,
                   ReadPriority priority, const CostConstants& constants = {});

/// Microseconds in which the busy SMs, with enough warps, issue that many thread instructions.
double issue_time(double issue_slots, const DeviceLimits& limits, double busy_sms,
                  const CostConstants& constants = {});

/// Microseconds of a second kernel that combines partial results.
double second_kernel_time(double partial_bytes, const DeviceLimits& limits,
                          const CostConstants& constants = {});

/// True if the inputs of a column kernel are taken to lie in L2, left there by an earlier kernel.
bool columns_come_from_l2(const SegmentFacts& facts, const DeviceLimits& limits);

/// Lower bound in microseconds of every prediction for the segment: launch, the ramp where nothing
/// hides it, and its bytes moved once at the best bandwidth.
double least_time(const SegmentFacts& facts, const DeviceLimits& limits,
                  const CostConstants& constants = {});

}  // namespace sinter
