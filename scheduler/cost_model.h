#pragma once

#include <vector>

#include "scheduler/decision.h"
#include "scheduler/device_limits.h"
#include "scheduler/resources.h"
#include "scheduler/schedule.h"
#include "scheduler/segment_facts.h"

namespace sinter {

// Predicted microseconds of one kernel:
//
//   total = launch + max(memory, L2, issue, special, shared) + exposed + spill
//   exposed = waves x latency of one block / (blocks resident on an SM ^ 1.2), where blocks without
//             barriers count by their warps
//
// Blocks that have their rows, and are gone, overlap more loosely. Throughput and the chain of
// waits of all waves, each alone, add up as a norm, whose exponent grows with the blocks that are
// resident: a single one loads, waits and computes in turns.
//
//   total = launch + (max(...)^p + ((waves - 1) x latency)^p)^(1/p) + last wave + spill
//
// Where each block loads one tile, each block slot of an SM runs its blocks one after the other,
// and each takes its own latency and that of memory: few bytes to a thread leave memory idle. That
// adds to throughput as a norm, too. Negations of 8192 x 8192 in bf16, stored two elements apart,
// take 257 us with one element to a thread of 256 and 229 with two (H100, 272 and 230 as predicted;
// benchmarks/results/h100_2026-11-26_strided_stores.json).
//
// Memory time is bytes over the bandwidth that a mix of reads and writes reaches. A block's latency
// is its chain of dependent waits: loads, row barriers, and its own instructions. While one block
// waits, the others resident on its SM work, so each block exposes its share only. Fitted to 326
// timed schedules of 15 problems on an H200; benchmarks/README.md says how far off it is.

/// What a block waits for on its way along a row, in nanoseconds, and what its threads do beside
/// their elements, in instructions.
struct RowConstants {
  double block_start_ns = 300.0;    ///< From a free slot to the next block's first load, and drain.
  double first_load_ns = 190.0;     ///< What stays exposed of the row's arrival after that.
  double chunk_ns = 500.0;          ///< Each further chunk that a looped row waits for.
  double l1_chunk_ns = 40.0;        ///< Each chunk of a row read again that is still in L1.
  double shared_chunk_ns = 18.0;    ///< Each chunk of a row that waits in shared memory.
  double cache_latency_ns = 250.0;  ///< A chunk of one weight vector, which hits L2.
  double warp_exchange_ns = 35.0;   ///< Five dependent shuffles and additions.
  double block_exchange_ns = 100.0;  ///< Warp exchange, barrier, second shuffle round.
  double warps_doubling_ns =
      0.0;  ///< The same, each doubling of warps beyond four: NonPersistentGrid.
  /// Coordinates and row scalars of one thread of a row kernel; from SASS.
  double prologue_instructions = 50.0;
  /// Beside the combinations, of a thread whose warp exchanges with others: the store of its tuple,
  /// the barrier, and the load of another one; from SASS.
  double exchange_instructions = 12.0;
  friend bool operator==(const RowConstants&, const RowConstants&) = default;
};

/// Of blocks that have their rows and are gone. Fitted to 2,873 timed schedules of 196 problems of
/// the suite in bf16 and f32 on an H200, beside 66 problems that were held out: of what was timed,
/// the choice takes 1.2 % longer than the fastest, and 1.2 % of those held out
/// (benchmarks/results/h200_2026-11-24_suite_sweep.json), and 1.3 % among 4,683 timed later with a
/// flush that no read outlives, to which they are not fitted again
/// (h200_2026-11-25_suite_cold*.json; least squares over those take the choice to 1.9 %). The waits
/// along a row are those of blocks that stay, but for warps that meet. `warps_doubling_ns` and
/// `draining_ns_per_byte` are chosen by what the choice takes longer than the fastest among the
/// suite and its wide rows on both cards (h100_2026-11-26_suite_{sweep_relaxed,wide}.json,
/// h200_2026-11-26_suite_{sweep,wide}.json), of 263 and 109 problems 1.0 and 1.2 % and of 257 and
/// 109 1.1 and 2.4 %.
struct NonPersistentGrid {
  /// Warps that keep a row meet when the last of them has all of its part. Layer norms of 2048 x
  /// 4096 in bf16 take 13.8 us with four warps to a row, and 14.3 with eight.
  RowConstants row{.warps_doubling_ns = 130.0};
  double clocks_per_instruction = 1.58;  ///< Of a thread's own chain of instructions.
  /// Of an SM: what copies of 8 bytes to shared memory take beyond those of 16. Of seven pairs of
  /// distillation losses in bf16 that differ in that, those in vectors of four take 15 to 107 us
  /// more for each GB they copy, 47 in the median (H200,
  /// benchmarks/results/h200_2026-11-25_suite_cold*).
  double narrow_copy_bytes_per_clock = 92.0;
  /// Exponent p = 1 + overlap x (resident blocks - 1 + lone_overlap) ^ overlap_growth, and
  /// most_overlap at most.
  double overlap = 0.84;
  double overlap_growth = 0.48;
  double most_overlap = 3.7;
  /// What the warps of one block hide for each other, in blocks beside it, where they do not wait
  /// for copies of whole rows: schedules with one block to an SM were predicted 11 % too slow
  /// without.
  double lone_overlap = 0.1;
  /// Instructions of threads for each byte with which an H200 issues as long as it loads.
  double balanced_slots_per_byte = 5.3;
  /// Of sums, for which nothing is stored along the rows: each doubling of the rows that a full SM
  /// reads at once, of memory time, and less with the cube of the share of it that computing leaves
  /// idle. Sums of 8192 x 7168 in f32 take 60.0, 62.5, 63.5 and 64.5 us with 2, 4, 8 and 16 rows.
  double row_doubling_share = 0.015;
  /// The same of each doubling of what threads of a full SM load at once beyond that many times
  /// what saturates memory, 64 KiB on an H200, where rows come whole: parts of rows of 128 x 524288
  /// in f32 take 69.1 us with two vectors for each of 1024 threads, those 64 KiB, and 72.0 us with
  /// four. Threads that registers leave no room for count too, so that more registers never predict
  /// a slower plan. Not where chunks follow each other: such sums lose more to waits with two.
  double oversaturation_share = 0.03;
  double saturations_before_queueing = 1.4;
  /// Of sums whose computing takes that much of memory time waits count whole, and less with its
  /// square: loads of other blocks are under way all the time. Of the same sums, blocks of 1,024
  /// threads that take two chunks of one load each take 60.2 us.
  double waiting_compute_share = 0.4;
  /// Of a block's chain, after throughput has ended; less where there are fewer blocks than SMs.
  double last_share = 0.9;
  double busy_warps = 41.8;       ///< Warps of an SM that reach issue_efficiency.
  double warps_exponent = 0.126;  ///< How issue time grows with fewer, and shrinks with more.
  /// Of the shorter of memory and issue time, what a single resident block adds to the longer one:
  /// it loads and computes in turns.
  double alternation_share = 0.085;
  /// Of what a wave writes on an SM: time in which that leaves L2 while the next wave waits.
  double draining_ns_per_byte = 0.014;
  /// Each doubling of a cluster: a slot that is given back waits for those of the other blocks, and
  /// in each chunk of a row that comes in several the slowest of them counts.
  double cluster_gather_ns = 412.0;
  /// Of memory time, what rows that are read again, hits in L1 included, take more than rows that
  /// are kept: schedules predicted within 6 % of the fastest are 1.1 % slower than those beside
  /// them, and the choice among the 262 and 253 problems of suite_sweep.json of 2026-11-24 and -25
  /// is 1.3 and 1.4 % behind the fastest instead of 1.4 and 1.5 %, with 11 and 13 problems instead
  /// of 14 and 17 by more than 5 %.
  double second_reads_share = 0.02;
  /// The same beyond that, of the share that L1 no longer holds: loops that read rows of 16,384 to
  /// 65,535 columns of bf16 again were predicted 4 % too fast on an H100 and 5 % on an H200, beside
  /// 1 % too slow for rows in shared memory. The choice among 261 and 257 problems timed with a
  /// cold L2 is 0.99 and 1.57 % behind the fastest instead of 0.98 and 1.59 %.
  double missed_reads_share = 0.05;
  /// Of the latency under load (bytes_in_flight_per_sm), that of memory which waits for requests:
  /// 1,280 ns and 500. 1,024 threads for rows of 3,072 elements have 24 KiB of an SM under way, of
  /// which an H100 asks 32 under load, and take 1.12 times as long as 512 (sums of 16384 x 3072 in
  /// f32, 80.8 and 72.2 us). Of 3,990 and 6,324 schedules on an H100 and an H200 predictions are
  /// off by 4.9 and 4.5 % so, and by 6.6 and 5.3 % with the latency under load.
  double idle_latency_share = 0.4;
  /// Of memory time, what rows of 16 bits in registers take more from kLateLoadElements of them in
  /// a thread on: ptxas moves some of their loads behind the first use. Softmax of 512 x 98304
  /// takes 64 us with 96 elements in a thread and 57 in shared memory, predicted alike before; 42
  /// schedules of norms and softmax like that took 4 to 11 % longer than predicted in the mean
  /// (benchmarks/results/h200_2026-11-25_suite_{cold,cold_bf16,late}.json).
  double late_loads_share = 0.05;
  friend bool operator==(const NonPersistentGrid&, const NonPersistentGrid&) = default;
};

/// Latencies and overheads of the model, in nanoseconds unless named otherwise, fitted to those
/// timings.
struct CostConstants {
  /// Of the time, what each spilled register adds, and up to how many: of 156 kernels of the suite
  /// timed with spills and without, those with 8, 16, 32 and 64 bytes take 3, 5, 10 and 14 % longer
  /// (H200).
  double spill_share = 0.012;
  int64_t most_spills_waited_for = 12;
  double launch_us = 2.0;  ///< Empty kernel between two events.
  double ramp_us = 2.4;    ///< Until all SMs stream, and from the last load to the last store:
                           ///< where DeviceLimits::copy_efficiency's line begins.
  RowConstants row{};      ///< Of blocks that stay and walk rows, and of all other kernels.
  NonPersistentGrid non_persistent{};  ///< Of blocks that have their rows and are gone.
  double second_launch_us = 2.49;      ///< A dependent kernel of little work, its drain and ramp.
  /// From a block's last partial results to the branch of the block that is the last: two barriers,
  /// the fence that waits for the stores' way to L2 and back under the load that all blocks' ends
  /// are, and the atomic's. Of six kernels on an H200, sums of 65536 x 64 to losses of 2048 x 4096,
  /// none is more than 0.1 us faster with a ticket than with a second kernel.
  double last_block_ns = 1900.0;
  /// What one SM alone reads from L2: 500 rows of partial results of tanh gradients of 512 columns
  /// take 32.6 us longer so than by a second kernel.
  double last_block_bytes_per_clock = 43.0;
  /// One row of a warp-specialised group: its waits and exchange, each of a thread's instructions,
  /// what every warp of the group adds to the exchange, and each vector of weights read from cache.
  /// All pipeline_* constants, and those of clusters and of the second kernel's launch, are fitted
  /// together to 1,332 timed rings of norm, tanh and bias gradients on an H200
  /// (benchmarks/results/), 730 of them in clusters, which they miss by 4.5 % in the mean.
  /// `pipeline_instruction_ns` again with 30 rings of narrow rows, whose groups are busy all the
  /// time: 32.9 to 40.9 us for layer-norm gradients of 16384 x 1024.
  double pipeline_row_ns = 228.0;
  double pipeline_instruction_ns = 0.246;
  double pipeline_warp_ns = 27.7;
  double pipeline_weight_ns = 47.6;
  /// What a row takes longer for each share by which its threads want more registers than the
  /// launch gives them: the compiler orders instructions for those, whatever setmaxnreg adds. They
  /// want more than they need, to have loads under way before the first is used.
  double pipeline_register_limit = 0.388;
  double pipeline_wanted_registers = 1.53;
  double pipeline_overlap_exponent = 3.0;  ///< Memory time and the rows' chain overlap in part.
  double pipeline_memory_share = 0.928;  ///< Of the time that loads and stores by all threads take.
  /// All rings ask for all their stages at once, and memory serves them in turns: a group waits for
  /// its first row this share of the time in which everything arrives. RMS-norm gradients of 2048 x
  /// 4096 take 25.9 us with 14 stages and 23.2 with 7.
  double pipeline_fill_share = 0.813;
  /// Bytes under way that keep memory busy, as a multiple of what arrives while one waits: slots
  /// are given back a row at a time. With none beside the rows that groups have, memory takes this
  /// share longer: RMS-norm gradients of 4096 x 8192 with 6, 2, 1 and 0 more take 58.9, 61.3, 61.2
  /// and 62.2 to 64.1 us.
  double pipeline_bytes_in_flight = 6.51;
  double pipeline_starved_penalty = 0.086;
  /// From a slot that is given back to the next row in it. Gradients of layer norms of 2048 x 4096
  /// with 4, and so no, slots beside those of the groups take 29.8 us, with 8 24.5.
  double pipeline_refill_ns = 1360.0;
  /// Bytes under way on an SM from which more of them slow memory down, and the share of memory
  /// time that as many again add: layer-norm gradients of 16384 x 2048 in f32 take 100.9, 106.8 and
  /// 108.8 us with 128, 144 and 192 KiB in the rings, those of 8192 x 4096 101.5 with 128 and 107.6
  /// with 192.
  double pipeline_full_bytes = 116736.0;
  double pipeline_overfull_penalty = 0.0561;
  /// Warps of an SM that reach issue_efficiency, and how issue time grows with fewer: gradients of
  /// tanh, which issue bounds, take 68.8 us with 8 compute warps and 63.5 with 12 or 16.
  double pipeline_busy_warps = 8.08;
  double pipeline_warps_exponent = 0.359;
  /// Part of L1 that keeps rows for their second read; the rest goes to what is written, to weights
  /// and to the rows that follow.
  double l1_row_share = 0.5;
  /// How fast hits vanish as the resident rows outgrow that part. A cyclic pattern thrashes, so
  /// they vanish faster than the part left over. An RMS norm that reads its rows of 16 KiB again
  /// takes 70 us with 64 KiB resident on an SM of an H200, 77 with 160, 94 with 208, 102 with 320.
  double l1_thrash = 1.6;
  /// What each GB takes longer where reads do not ask to leave L2 last, at an even mix of reads and
  /// writes: L2 then writes dirty lines back in turns with reads. Of 598 pairs of norms, softmax
  /// and quantisations with rows in registers those of 60 to 250 MB take 7.8 us more for each GB on
  /// an H200 and 6.2 on an H100, larger ones 5.3 and 4.1
  /// (benchmarks/results/h200_2026-11-2{5,6}_suite_*.json, h100_2026-11-26_suite_sweep*.json). As a
  /// share of memory time it would differ by the card.
  double normal_read_us_per_gb = 6.5;
  /// Of L2, what a kernel moves without that: L2 then has room for what it writes, and what it
  /// reads is taken to lie there already (columns_come_from_l2). Quantisations of 19 MB take 1.8 %
  /// less where reads ask, which is left to the next kernel.
  double l2_room_share = 0.4;
  /// What other kernels left in L2 and memory has not seen yet: reads that push it out wait for its
  /// way there. Column sums of 64 MiB on an H200: 28.8 us, and 24.9 where reads leave L2 first. Of
  /// what is read within L2's size the square of its share counts: sums of 42 MB take 18.0 and 16.1
  /// us. Where the kernel writes as well, the fourth power of what the mix lacks to an even one:
  /// quantisations of 67 MB to 17 take 0.5 us less where reads leave L2 last than where they leave
  /// it first, those of 33 MB to 17 0.9 us (results as above).
  double dirty_line_bytes = 22e6;
  /// Memory time added where reads leave L2 first: column sums of 64 MiB as above, 512 MiB of
  /// cross-entropy in 139.3 us instead of 136.2, norms of 8192 x 8192 in 73.3 instead of 67.8.
  double evict_first_penalty = 0.06;
  /// From a read of memory to its use, under load: what little is in flight waits that long for
  /// each turn. Column sums of 64 MiB with 4, 8, 16, 32 and 64 KiB in flight per SM of an H200 take
  /// 111, 62, 37, 27 and 25 us.
  double memory_wait_ns = 830.0;
  /// Memory time added where a block's runs of columns are short, at none of a line: memory opens a
  /// page for each. The same sums take 24.6 us with runs of 128 bytes, 26.7 with runs of 64.
  double short_run_penalty = 0.4;
  /// Of memory time, what blocks that stay for several rows and only leave totals of them take more
  /// than blocks that have a row and are gone: a block's loads pause at the end of each row, and
  /// the next block is there at once. Of 36 losses of 206 MB to 10 GB the best of those that were
  /// timed were never faster, and 7 % slower in the mean, for the most part 1 to 4 % (H200,
  /// benchmarks/results/h200_2026-11-25_suite_cold*.json). Walks that keep part of a row were not
  /// looked at.
  double staying_share = 0.06;
  double tile_vector_ns =
      200.0;  ///< Each vector that a thread of a pointwise tile loads and stores.
  /// What an exchange over the blocks of a cluster takes: a store's way to another SM and the
  /// mbarrier's phase, and what each doubling of the cluster adds, because the last of its blocks
  /// counts.
  double cluster_exchange_ns = 257.0;
  double cluster_doubling_ns = 96.4;
  /// What a kernel of clusters takes longer to begin: its blocks start together, and wait for each
  /// other before the first sends.
  double cluster_start_us = 0.54;
  double hiding_exponent = 1.2;  ///< Of the blocks that hide each other's waits.
  /// Rows that are not reduced have no barrier: so many warps then hide waits as a block does.
  /// Gradients of tanh at 4096 x 8192 with 8, 16 and 32 warps on an SM: 91.9, 74.2 and 64.5 us.
  double free_warps = 4.0;
  double own_issue_share =
      0.35;  ///< Share of a block's issue time that its other warps do not hide.
  /// Share of issue slots that dependent code fills with enough warps resident.
  double issue_efficiency = 0.75;
  /// Address arithmetic, predicate and the access itself, per vector; from SASS.
  double instructions_per_access = 4.0;
  /// What the place of a column takes more for each dimension of the columns beyond the first: the
  /// quotient by a constant, the remainder, and a product added in 64 bits; from PTX.
  double column_split_instructions = 7.0;
  double instruction_bytes = 16.0;  ///< Volta and later.
  /// What a logarithm in haste takes when it is taken with care, beyond a repetition of all that is
  /// done with its element: the library's function (codegen/device/numeric.cuh); from SASS.
  double careful_logarithm_instructions = 18.0;
  /// The same where a loop leaves elements for a store, and asks of each argument whether it needs
  /// care.
  double asked_logarithm_instructions = 28.0;
  /// Instructions of a row kernel's text beside those of its elements: of 17 kernels of losses with
  /// more than 3,000 instructions it missed the text by 4 % in the mean (NVRTC 13.0), together with
  /// a term for elements that were tested one by one, which no row kernel has any more.
  double text_beside_elements = 600.0;
  /// Text of a kernel that an SM keeps from block to block, and what it fetches of the rest in each
  /// of them. Of twelve kernels of distillation losses with 2,000 to 8,300 instructions, compared
  /// two by two for the same rows, those of 3,600 and fewer lost nothing, and those of 5,100 and
  /// more 24 to 91 bytes per clock of a block, of which this is the geometric mean (H200).
  double kept_text_bytes = 65536.0;
  double text_bytes_per_clock = 48.0;
  /// Coordinates and bounds of one thread of a pointwise kernel; from SASS.
  double tile_prologue_instructions = 30.0;
  /// Each step of a block's search for its member of a list (kListSearchParts): reads among the
  /// kernel's arguments, whose addresses follow from the step before. Not timed: 89 cycles where
  /// L1.5 has a constant (Jia et al., arXiv 1804.06826, table 3.1), and a selection for each of the
  /// seven, at 1,755 MHz. A read, a comparison and a selection each.
  double search_step_ns = 70.0;
  double search_step_instructions = 21.0;
  friend bool operator==(const CostConstants&, const CostConstants&) = default;
};

/// What a family knows about one schedule beyond its resources.
struct WorkEstimate {
  double bytes_read = 0.0;  ///< From memory, repeated reads counted each time they miss L2.
  double bytes_written = 0.0;
  double l2_bytes = 0.0;     ///< Between SMs and L2: all reads and writes, repeated ones too.
  double issue_slots = 0.0;  ///< Thread instructions in all.
  double special = 0.0;      ///< Special-function results in all.
  double fetched_text_bytes = 0.0;  ///< Instructions that SMs fetch again for every block, in all.
  double shared_bytes = 0.0;        ///< Shared-memory traffic in all.
  double partial_bytes = 0.0;  ///< Of outer reductions: written here, read by what finishes them.
  double last_block_us = 0.0;  ///< Of the last block finishing them; 0: a second kernel does.
  ReadPriority read_priority = ReadPriority::kNormal;  ///< Of all bulk reads.
  double block_latency_ns = 0.0;                       ///< Chain of waits of one block.
  /// Waits beyond those, in a loop without barriers: warps hide them as they do where rows are not
  /// reduced (CostConstants::free_warps).
  double free_latency_ns = 0.0;
  /// Of blocks that have their rows and are gone: what each thread issues, one after the other, and
  /// that the total is that of NonPersistentGrid. 0: blocks stay.
  double thread_instructions = 0.0;
  double start_us = 0.0;       ///< Beyond a launch, until the first block begins; less than 0
                               ///< beside the kernel before.
  double uneven_us = 0.0;      ///< Of blocks that stay: idle memory in a last turn of few rows, and
                               ///< between rows (CostConstants::staying_share).
  double turns = 1.0;          ///< Rows that a block takes one after the other, spilling in each.
  double end_ns = 0.0;         ///< Once in every block, after its last row.
  double element_slots = 0.0;  ///< Of issue_slots, those for each element, once.
  double rows_at_once = 1.0;   ///< That an SM full of threads reads side by side.
  /// That the threads of an SM full of them have under way, where a block loads its row at once; 0
  /// where it comes in several chunks.
  double row_bytes_at_once = 0.0;
  bool walks_rows = false;        ///< Nothing is kept of a row: it comes by chunks in every stage.
  bool reads_rows_again = false;  ///< Several stages read elements that are not kept.
  double missed_again = 0.0;      ///< Of what they read again, the share that L1 does not hold.
  bool loads_late = false;  ///< Registers hold so much of a row that some loads wait for others.
  bool waits_for_copies = false;   ///< What is kept of rows is copied whole before it is used.
  double narrow_copy_bytes = 0.0;  ///< Copied to shared memory less than 16 bytes at a time.
  bool has_barriers = true;        ///< The warps of a block wait for each other in every row.
  bool loads_once = false;         ///< A block loads a tile, waits for it, stores it and is gone.
  friend bool operator==(const WorkEstimate&, const WorkEstimate&) = default;
};

Prediction predict(const WorkEstimate& work, const ResourceEstimate& estimate,
                   const DeviceLimits& limits, const CostConstants& constants = {});

/// Bandwidth in bytes per microsecond for a mix of reads and writes: a read-only kernel reaches
/// read_efficiency of the data-sheet figure, an even mix copy_efficiency, and so do writes.
double mixed_bandwidth(const DeviceLimits& limits, double bytes_read, double bytes_written);

/// Microseconds from where a launch and its ramp would let the first block begin to where it does:
/// later in clusters, earlier beside the kernel before it.
double start_time(const Schedule& schedule, const CostConstants& constants = {});

/// Nanoseconds of an exchange over the blocks of a cluster; 0 for one block.
double cluster_exchange_time(int64_t cluster_size, const CostConstants& constants = {});

/// Microseconds in which that many bytes move, where reads ask this of L2.
double memory_time(const DeviceLimits& limits, double bytes_read, double bytes_written,
                   ReadPriority priority, const CostConstants& constants = {});

/// Microseconds in which busy SMs with enough warps issue that many thread instructions.
double issue_time(double issue_slots, const DeviceLimits& limits, double busy_sms,
                  const CostConstants& constants = {});

/// Microseconds of a second kernel that finishes partial results.
double second_kernel_time(double partial_bytes, const DeviceLimits& limits,
                          const CostConstants& constants = {});

/// True if inputs of a walk down columns are taken to lie in L2, where the kernel before left them.
bool columns_come_from_l2(const SegmentFacts& facts, const DeviceLimits& limits);

/// Microseconds that no schedule of the segment is predicted to go below: its launch, the ramp
/// where nothing hides it, and its bytes moved once in the fastest way there is.
double least_time(const SegmentFacts& facts, const DeviceLimits& limits,
                  const CostConstants& constants = {});

}  // namespace sinter
