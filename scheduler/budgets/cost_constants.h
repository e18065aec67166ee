#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace sinter {

// The numbers that the cost model multiplies by. Each device has a file of them, devices/*.json,
// which the build embeds. docs/cost_model.md states the formulas and gives the measurements behind
// many of the constants.

/// Latencies along a row, in nanoseconds, and instructions that are not per element.
struct RowConstants {
  double block_start_ns;     ///< Block launch to first load, and drain of the block.
  double first_load_ns;      ///< Exposed part of the row's first load after that.
  double chunk_ns;           ///< Each further chunk loaded from DRAM or L2.
  double l1_chunk_ns;        ///< Each chunk of a second pass that hits L1.
  double shared_chunk_ns;    ///< Each chunk kept in shared memory.
  double cache_latency_ns;   ///< A chunk of one weight vector, which hits L2.
  double warp_exchange_ns;   ///< Warp reduction: five dependent shuffles and additions.
  double block_exchange_ns;  ///< Block reduction: warp reduction, barrier, second round.
  /// Coordinates and row scalars, per thread; from SASS.
  double prologue_instructions;
  /// Block reduction without its combinations, per thread: store of the tuple, barrier, load of
  /// another one; from SASS.
  double exchange_instructions;
  friend bool operator==(const RowConstants&, const RowConstants&) = default;
};

/// Non-persistent grids, beside the latencies along a row.
struct NonPersistentGrid {
  /// Added to a block reduction per doubling of warps beyond four: a barrier waits for the slowest
  /// of them. Not for warps that keep no row.
  double warps_doubling_ns;
  double clocks_per_instruction;  ///< Of a thread's dependent instruction chain.
  /// p = 1 + overlap x (resident blocks - 1 + lone_overlap) ^ overlap_growth.
  double overlap;
  double overlap_growth;
  /// Latency hiding among the warps of a single resident block, in units of one further block. 0
  /// for schedules that wait for copies of whole rows.
  double lone_overlap;
  /// Thread instructions per byte at which an H200 takes as long to issue as to load.
  double balanced_slots_per_byte;
  /// Reductions that store nothing along the row: fractional increase of DRAM time per doubling of
  /// the rows in flight on an SM, scaled by (1 - compute / memory)^3.
  double row_doubling_share;
  /// Compute as a share of DRAM time at which such reductions expose their whole latency. Below it
  /// the exposed part falls with the square of the share.
  double waiting_compute_share;
  /// Share of a block's critical path that is exposed after the throughput-bound part; less for
  /// grids of fewer blocks than SMs.
  double last_share;
  double busy_warps;      ///< Resident warps of an SM that reach issue_efficiency.
  double warps_exponent;  ///< Issue time grows by (busy_warps / warps) ^ warps_exponent.
  /// A single resident block alternates between loading and computing: it adds this share of the
  /// shorter of DRAM and issue time.
  double alternation_share;
  /// Nanoseconds of write-back from L2 that overlap the next wave's critical path and are
  /// subtracted from it, per byte that a wave writes on an SM.
  double draining_ns_per_byte;
  /// Per doubling of the cluster: a free block slot waits for the slots of the other blocks, and
  /// every chunk waits for the slowest block.
  double cluster_gather_ns;
  /// Fractional increase of DRAM time of schedules that read rows again, even where the second read
  /// hits L1.
  double second_reads_share;
  /// Further fractional increase of DRAM time, times the L1 miss rate of the second reads.
  double missed_reads_share;
  /// Idle DRAM latency as a share of the loaded latency (bytes_in_flight_per_sm by Little's law).
  double idle_latency_share;
  /// Fractional increase of DRAM time for rows of elements of at most 16 bits with more than
  /// kLateLoadElements in a thread's registers: ptxas moves some of their loads behind the first
  /// use.
  double late_loads_share;
  friend bool operator==(const NonPersistentGrid&, const NonPersistentGrid&) = default;
};

/// Contractions (family matmul), in clocks of an SM or of a warp unless the name says otherwise.
struct MatmulConstants {
  /// Of a step of the pipeline of warps (mma.sync) in which a block computes nothing: it waits
  /// for its copies and for its warps, and loads the first matrices.
  double step_clocks;
  /// Time of the instructions behind fragments, as a multiple of that at the full rate of an SM:
  /// two warps of each scheduler hide little of their latency.
  double fragment_issue;
  /// Of an SM for a special function of an element there, beside its instructions.
  double fragment_function_clocks;
  /// Of an SM for an element of another input there, which a lane reads in pairs, eight rows of a
  /// warp at once.
  double fragment_input_clocks;
  /// Of an SM for a random number: Philox gives four at once, of which a lane takes the two of its
  /// columns, and branches to find out.
  double philox_clocks;
  /// Between the last product of a warp group and the first store behind it, and between its last
  /// store and the next product.
  double turn_clocks;
  /// Of a step of the pipeline beside its products, where one warp group multiplies alone.
  double turned_step_clocks;
  /// Time of what follows from the products of a tile where others multiply meanwhile, as a
  /// multiple of its time alone: both take shared memory, and fewer warps hide less.
  double beside_products;
  /// Instructions of all warps of an epilogue in a clock of the SM, beside the products: most wait
  /// for the one before.
  double epilogue_issue_per_clock;
  /// Of an iteration of such a warp over rows that it reduces: its loads, sums and stores wait for
  /// each other, so that more warps issue more in a clock.
  double row_iteration_clocks;
  double row_issue_per_clock;
  /// Of a step in which lanes, or CTAs of a cluster, combine two sums of a row.
  double reduction_step_clocks;
  /// Of an SM for a store to another CTA of its cluster.
  double remote_store_clocks;
  /// Of an access by which such a warp takes what other CTAs send of its rows through L2.
  double message_clocks;
  /// In which such a warp waits for another input of its rows.
  double input_wait_clocks;
  /// Exponent of the share of SMs that clusters leave at work, which multiplies the time of their
  /// products: power limits the clock, and SMs that idle leave theirs to the others.
  double idle_sms_exponent;
  /// Time of products by several narrow instructions for a step beside an epilogue, as a multiple
  /// of that by one that is wider: they read an operand more often from shared memory.
  double narrow_instructions;
  /// Elements of a tile that an SM puts into shared memory for the warps of an epilogue, while the
  /// pipeline runs empty.
  double handover_elements_per_clock;
  /// Bytes that tensor copies bring from L2 to an SM.
  double copy_bytes_per_clock;
  /// Between the request of a tensor copy and its first bytes. While a stage is multiplied the
  /// others are on their way.
  double copy_latency_clocks;
  /// Of a warp for a step of 32 bytes along k whose left operand it splits into TF32 parts, beside
  /// the products. They go on meanwhile: both times join as a 2-norm.
  double split_step_clocks;
  /// Share of their rate at which lanes multiply-add: they also load operands, which takes issue
  /// slots and register banks.
  double lane_efficiency;
  /// Rate of f8 products beside that of 16-bit ones on compute capability 9.0, where mma.sync takes
  /// longer for f8.
  double f8_rate;
  friend bool operator==(const MatmulConstants&, const MatmulConstants&) = default;
};

/// Latencies and overheads of the model, in nanoseconds unless the name says otherwise. All members
/// are numbers of one device, so there is no default: DeviceLimits::cost has those of its device.
struct CostConstants {
  CostConstants() = delete;
  /// Values in the order of cost_constant_fields().
  explicit CostConstants(std::span<const double> values);

  /// Fraction of the time added per spilled register, for the first most_spills_waited_for.
  double spill_share;
  double most_spills_waited_for;
  double launch_us;  ///< Empty kernel between two events.
  double ramp_us;    ///< Until all SMs stream, and from the last load to the last store: the
                     ///< offset of the fitted line of DeviceLimits::copy_efficiency.
  RowConstants row;
  NonPersistentGrid non_persistent;
  MatmulConstants matmul;
  double second_launch_us;  ///< A dependent kernel of little work, with its drain and ramp.
  /// Last-block finish: nanoseconds from a block's last partial results to the branch of the last
  /// block. It spans two barriers, a fence under load, and the atomic.
  double last_block_ns;
  double last_block_bytes_per_clock;  ///< L2 bandwidth of the one SM of the last block.
  /// Nanoseconds of one row of a consumer warp group: its waits and exchange, each instruction of a
  /// thread, each warp in the exchange, and each vector of weights from cache. All pipeline_*
  /// constants, those of clusters and second_launch_us are fitted together.
  double pipeline_row_ns;
  double pipeline_instruction_ns;
  double pipeline_warp_ns;
  double pipeline_weight_ns;
  /// Fractional increase of a row's time per fraction by which its threads want more registers than
  /// the launch gives. The compiler schedules for the launch's count, whatever setmaxnreg adds.
  /// Threads want pipeline_wanted_registers times the estimate, to have loads in flight before the
  /// first use.
  double pipeline_register_limit;
  double pipeline_wanted_registers;
  double pipeline_overlap_exponent;  ///< Joins throughput and latency; of tiles too.
  double pipeline_memory_share;      ///< DRAM time relative to loads by all threads.
  /// Fill of the pipeline: a group waits for its first row for this share of the time in which all
  /// stages of all blocks arrive.
  double pipeline_fill_share;
  /// Bytes in flight that saturate DRAM, as a multiple of what arrives in memory_wait_ns: a stage
  /// is released one row at a time. If only the rows in use are resident and no load is in flight,
  /// DRAM time grows by the penalty.
  double pipeline_bytes_in_flight;
  double pipeline_starved_penalty;
  double pipeline_refill_ns;  ///< From the release of a stage to the next row in it.
  /// Bytes in flight on an SM from which more slow DRAM down, and the fractional increase per as
  /// many again.
  double pipeline_full_bytes;
  double pipeline_overfull_penalty;
  /// Warps of an SM that reach issue_efficiency, and the exponent with which issue time grows with
  /// fewer.
  double pipeline_busy_warps;
  double pipeline_warps_exponent;
  /// Share of L1 that keeps rows for a second read; writes, weights and later rows take the rest.
  double l1_row_share;
  /// DRAM time per GB added by reads of normal priority, at an even mix of reads and writes: L2
  /// then alternates between write-backs and reads. A cost per GB holds for both cards; a share of
  /// DRAM time would differ.
  double normal_read_us_per_gb;
  /// Traffic, as a share of L2, up to which normal_read_us_per_gb does not apply: L2 has room for
  /// the writes. Inputs of a column kernel are then taken to be in L2 already
  /// (columns_come_from_l2).
  double l2_room_share;
  /// Dirty L2 lines of earlier kernels, in bytes: reads that evict them wait for the write-back.
  /// Scaled by the square of the traffic's share of L2, at most 1. If the kernel writes, also
  /// scaled by the fourth power of the distance from an even mix. Not for reads that ask for
  /// evict_first.
  double dirty_line_bytes;
  /// Fractional increase of DRAM time where reads ask for evict_first.
  double evict_first_penalty;
  /// Nanoseconds from a DRAM read to its use, under load. A schedule with little in flight waits
  /// this long in each round of loads.
  double memory_wait_ns;
  /// Fractional increase of DRAM time for column strips of zero width, falling linearly to none at
  /// 128 bytes: each row of a strip opens a DRAM page. Transposes use it too.
  double short_run_penalty;
  double tile_vector_ns;  ///< Each vector that a thread of a pointwise tile moves.
  /// Nanoseconds of an exchange across a cluster: a remote store and the phase of the mbarrier, and
  /// what each doubling of the cluster adds because the slowest block counts.
  double cluster_exchange_ns;
  double cluster_doubling_ns;
  /// Start of a kernel with clusters: blocks start together and synchronise before the first store.
  double cluster_start_us;
  /// Warps that hide as much latency as one block where rows have no barrier.
  double free_warps;
  /// Share of issue slots that dependent code fills with enough warps resident.
  double issue_efficiency;
  /// Address arithmetic, predicate and the access, per vector; from SASS.
  double instructions_per_access;
  /// Per dimension of the columns beyond the first: quotient by a constant, remainder, 64-bit
  /// multiply-add; from PTX.
  double column_split_instructions;
  double instruction_bytes;  ///< Volta and later.
  /// Instructions of the slow path of a fast-path logarithm, beyond the repetition of its element:
  /// the library's function (codegen/device/numeric.cuh); from SASS.
  double careful_logarithm_instructions;
  /// The same in a loop that leaves elements for a store and tests each argument; from SASS.
  double asked_logarithm_instructions;
  /// Code size of a row kernel beyond its elements, in instructions (NVRTC 13.0).
  double text_beside_elements;
  /// Instruction cache of an SM in bytes, and the rate in bytes per clock at which the SM fetches
  /// code beyond it again in every block.
  double kept_text_bytes;
  double text_bytes_per_clock;
  /// Coordinates and bounds of one thread of a pointwise kernel; from SASS.
  double tile_prologue_instructions;
  /// Each step of a block's search for its tensor of a list, in nanoseconds and instructions. A
  /// step cuts the members into kListSearchParts parts with seven times a read, a comparison and a
  /// selection. Its addresses depend on the step before. 89 cycles for a constant that hits L1.5
  /// (Jia et al., arXiv 1804.06826, table 3.1) and seven selections, at 1,755 MHz; not timed.
  double search_step_ns;
  double search_step_instructions;
  friend bool operator==(const CostConstants&, const CostConstants&) = default;
};

/// Where the value of a constant comes from.
enum class ConstantOrigin {
  kCounted,   ///< Counted in SASS or PTX, or taken from a document.
  kMeasured,  ///< Measured alone, by kernels that isolate it (docs/cost_model.md).
  kFitted,    ///< Fitted, together with others, to timed schedules by `sinter_cost_model fit`.
};

/// A constant by name, and what it may be.
struct CostConstantField {
  std::string_view name;  ///< As in C++ and, each dot an object, in JSON: "row.chunk_ns".
  double& (*of)(CostConstants&);
  double least;
  double most;
  ConstantOrigin origin;
};

/// All constants, in a fixed order.
std::span<const CostConstantField> cost_constant_fields();
double value_of(const CostConstantField& field, const CostConstants& constants);
const CostConstantField* find_cost_constant(std::string_view name);

/// The constants embedded for a device of device_presets(), by its name. Any other device gets
/// those of kReferenceDevice, on which most were measured.
const CostConstants& cost_constants_of(std::string_view device);
inline constexpr std::string_view kReferenceDevice = "H200";

struct NamedConstant {
  std::string_view name;
  double value;
};

/// A file devices/*.json: a device takes the constants of another one but for those it names.
struct DeviceConstants {
  std::string_view device;
  std::string_view same_as;  ///< Empty: all constants are named.
  std::span<const NamedConstant> constants;
};

std::span<const DeviceConstants> embedded_cost_constants();

}  // namespace sinter
