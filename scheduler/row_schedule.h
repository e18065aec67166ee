#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "scheduler/device_limits.h"
#include "scheduler/resources.h"
#include "scheduler/schedule.h"
#include "scheduler/segment_facts.h"

namespace sinter {

// Geometry of schedules that give a row to a group of threads: shared by the multi-wave and looped
// families, by their estimates, and by the lowering.

/// Bytes of one mbarrier in shared memory (PTX ISA).
inline constexpr int64_t kBytesPerMbarrier = 8;

inline bool is_power_of_two(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

/// A rejection of a schedule in the name of its family.
Rejection rejected(const Schedule& schedule, std::string rule, int64_t value, int64_t limit,
                   std::string unit, std::string remedy);

/// True if one stride walks all columns, so that the place of a column takes no division.
bool has_one_stride(const IterationSpace& space, const TensorAccess& access);

/// How one tensor is accessed under a schedule.
enum class AccessKind : uint8_t {
  kVector,   ///< Whole vectors, aligned.
  kUniform,  ///< One element serves the whole vector: the tensor does not vary inside it.
  kElement,  ///< One access per element.
};
AccessKind access_kind(const SegmentFacts& facts, const TensorAccess& access,
                       const Schedule& schedule);

/// Bytes that a thread loads or stores at once at most, up to compute capability 9.0 (PTX ISA, ld
/// and st with .v4.b32).
inline constexpr int64_t kMostAccessBytes = 16;
/// Bytes that it copies to shared memory at once past its registers, at most and at least (PTX ISA,
/// cp.async).
inline constexpr int64_t kMostAsyncBytes = 16;
inline constexpr int64_t kLeastAsyncBytes = 4;
/// True if a thread's vectors of an input can be copied so.
bool copies_async(const SegmentFacts& facts, const Schedule& schedule, ValueId value);

/// Whether the threads of a warp store an output in pairs where none of their vectors has a
/// predication: a vector of two accesses or more is then stored by two threads together, so that
/// each access of the warp fills whole sectors and not every second half of one. For elements of
/// four bytes, of warps that have one row, but not where another thread's part of an input lies in
/// that memory.
bool stores_in_pairs(const SegmentFacts& facts, const Schedule& schedule, size_t output);

/// The tensor whose alignment the shift of RowAccess::kUnaligned follows: the first full one with a
/// single row stride; nullptr if the rows of no tensor are reached by one stride.
const TensorAccess* shift_reference(const SegmentFacts& facts);

/// Rejects vector widths no access can have.
std::optional<Rejection> check_vector_width(const Schedule& schedule);
/// Rejects shifted vectors where blocks walk elements from the first one, or columns, and shift
/// nothing: their vectors would be misaligned wherever the first element lies on no boundary.
std::optional<Rejection> check_no_shift(const Schedule& schedule);

/// Rejects clusters, for families whose blocks share no rows.
std::optional<Rejection> check_no_cluster(const Schedule& schedule);

/// Rejects clusters of a size that the device does not run, and grids that are not made of whole
/// ones.
std::optional<Rejection> check_cluster_size(const Schedule& schedule, const DeviceLimits& limits);

/// Blocks of the largest cluster that finds a place on most SMs: larger ones leave a sixth of them
/// over, and are offered only for rows that fill smaller ones, or left to pins.
int64_t largest_unstranded_cluster(const DeviceLimits& limits);
/// 1, and its doubles up to `largest` as long as `worth_doubling` says so of the one before.
std::vector<int64_t> cluster_sizes(int64_t largest,
                                   const std::function<bool(int64_t)>& worth_doubling);

/// Rejects parameters, for families without any.
std::optional<Rejection> check_no_parameters(const Schedule& schedule);

/// Rejects numbers of a ring, for families without one.
std::optional<Rejection> check_no_pipeline(const Schedule& schedule);

/// Rejects rows ahead, for families whose threads load no rows into registers one after the other.
std::optional<Rejection> check_no_prefetch_rows(const Schedule& schedule);

/// Rejects accumulators elsewhere than in registers, for families that keep them there.
std::optional<Rejection> check_accumulators_in_registers(const Schedule& schedule);

/// Rejects turns, for families whose blocks go through each row as soon as it is reduced.
std::optional<Rejection> check_no_two_pass(const Schedule& schedule);

/// Inputs that a schedule keeps in registers and loads a row ahead, into registers of their own; in
/// turns those that the second part reads. None where no row is ahead.
std::vector<ValueId> prefetched_inputs(const SegmentFacts& facts, const Schedule& schedule);
/// 32-bit words per thread of those registers, and of row values that are read a row ahead.
int64_t prefetched_words(const SegmentFacts& facts, const Schedule& schedule);

/// Rejects row access modes and vector widths that are illegal for this segment.
std::optional<Rejection> check_row_access(const SegmentFacts& facts, const Schedule& schedule);

/// Elements of a shifted row that may lie outside of its whole vectors: before the first, which
/// starts at a vector boundary, and behind the last.
int64_t most_peeled_elements(const Schedule& schedule);
/// How many of those a thread takes at most, whose edges they then are. 0 where rows are not
/// shifted, have no elements, or vectors of one.
int64_t peeled_count(const SegmentFacts& facts, const Schedule& schedule);

/// Columns of a row that each block of a cluster has in whole vectors, at most: the last one may
/// have fewer. The first one has the edges of shifted rows beside them.
int64_t columns_per_block(const SegmentFacts& facts, const Schedule& schedule);
/// Columns that the last block of a cluster has at least in whole vectors, wherever rows start; of
/// rows too short for so many blocks none or fewer.
int64_t columns_of_last_block(const SegmentFacts& facts, const Schedule& schedule);

/// How batches of a row are predicated. Batch b covers the columns [b * T * V, (b + 1) * T * V),
/// counted from the first whole vector.
enum class Predication : uint8_t {
  kNone,     ///< Every element exists.
  kVector,   ///< A thread's vector is inside the row or outside it.
  kElement,  ///< Single elements may be outside.
};

/// A run of batches under one predication.
struct BatchSpan {
  int64_t begin = 0;
  int64_t end = 0;
  Predication predication = Predication::kNone;
  friend bool operator==(const BatchSpan&, const BatchSpan&) = default;
};
/// The batches of a block's columns, in order: at most a main part and a tail. Empty for a row
/// without whole vectors.
boost::container::static_vector<BatchSpan, 2> batch_spans(const SegmentFacts& facts,
                                                          const Schedule& schedule);
/// Batches of a block's columns in all.
int64_t batch_count(const SegmentFacts& facts, const Schedule& schedule);
/// Groups of a tile that holds what a thread has of a row: one for each batch and each edge.
int64_t group_count(const SegmentFacts& facts, const Schedule& schedule);
/// Elements of a row that a thread goes through, inside the row or not.
int64_t elements_per_thread(const SegmentFacts& facts, const Schedule& schedule);

/// True if registers hold a value of the row from stage to stage.
bool keeps_in_registers(const Schedule& schedule);
/// True if the batches of a row are unrolled, because registers that are indexed by batch hold
/// something of each: a kept value, or accumulators.
bool unrolls_batches(const SegmentFacts& facts, const Schedule& schedule);
/// Chunks of `unroll` batches that a thread walks one after the other; what the last one has fewer
/// comes together. Edges come with a last chunk that is no part of a loop, else by themselves.
int64_t chunk_count(const SegmentFacts& facts, const Schedule& schedule);
/// Batches of one predication, `batches` of them at a time: a loop over chunks, or the only chunk.
struct ChunkRun {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t batches = 0;
  Predication predication = Predication::kNone;
  /// The thread's edges come with its batches, of which there may be none then.
  bool edges = false;
  /// A single chunk, which needs no loop.
  [[nodiscard]] bool is_one() const { return end - begin == batches; }
  friend bool operator==(const ChunkRun&, const ChunkRun&) = default;
};
/// What a thread's walk along a row in chunks of `unroll` batches is printed as, in order.
std::vector<ChunkRun> chunk_runs(const SegmentFacts& facts, const Schedule& schedule,
                                 int64_t unroll);
/// Rows that a block of so many threads is offered: no more than there are, nor fewer than a warp
/// takes.
int64_t offered_rows(const SegmentFacts& facts, int64_t block_threads, int64_t threads_per_row);
/// Rows of a block that exist.
int64_t existing_rows(const SegmentFacts& facts, const Schedule& schedule);

/// Batches whose columns a thread has accumulators for, and unrolls where it has any: all of its
/// row, or one chunk of those that turns go through.
int64_t held_batches(const SegmentFacts& facts, const Schedule& schedule);

/// Elements of a row in a thread's registers up to which statistics look twice at all of them at
/// once where they are converted first: ptxas converts those of the second look together with those
/// of the first. A softmax with 128 of them took 220 registers instead of 106, and spilled 452
/// bytes under a cap of 128 (ptxas 13.0, sm_90a).
inline constexpr int64_t kMostConvertedTwice = 32;

/// True if a reduction looks at elements twice: for their mean or extreme, and then for what
/// deviates from it or where it is.
bool takes_two_passes(const OpKind& kind);
/// True if the statistics of stage s take the whole row in each of their two sweeps, because the
/// second reads nothing but what is held. Else they take a chunk after the other.
bool passes_over_whole_row(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage,
                           size_t s);
/// True if, beyond that, the threads of a row meet between the two sweeps: what deviates is then
/// added up for one pivot or maximum of the row, where else tuples are merged in every step of
/// their exchange. One step of merging Welford's takes 32 instructions, three of sums take 6. Not
/// where the pivot of Welford statistics would not bear an outlier.
bool syncs_between_passes(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage,
                          size_t s);
/// Threads of a row, the first ones, whose elements give the pivot of its Welford statistics where
/// they meet: the most that are a power of two and have elements in every row. Then the mean of
/// equal elements, added up by a tree, is exactly the element.
int64_t pivot_threads(const SegmentFacts& facts, const Schedule& schedule);
/// True if so many threads share the pivot that the sums of squares from it neither overflow where
/// m2 does not, nor cancel to less than a quarter, when one of their elements is far from the rest.
bool pivot_bears_outlier(const SegmentFacts& facts, const Schedule& schedule);

/// Bytes of the exchange that one barrier's reductions need in shared memory; zero if a row fits a
/// warp, or has no elements. `copies` of it lie side by side, each for `rows` rows of a group. In a
/// cluster with its mbarriers.
int64_t exchange_bytes(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                       int64_t copies = 1, int64_t rows = 1);
/// Shared bytes of the row values that wait for the end of a turn: a place for each of its rows.
int64_t tile_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                          const StageList& list);
/// Shared bytes of a block: resident values and one exchange for every reducing stage, each aligned
/// to 16 bytes.
int64_t row_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);
/// The same with the stages at hand, as stages_of() gives them.
int64_t row_shared_bytes(const SegmentFacts& facts, const Schedule& schedule,
                         const StageList& list);

/// The priority under which the segment's bytes move fastest (memory_time):
/// - kEvictLast, where L2 has no room for what moves and much of it is written, makes L2 write its
///   dirty lines back steadily instead of in turns with reads: on an H200 an RMS norm of 8192 x
///   8192 in bf16 takes 68 us instead of 71, one of 2048 x 4096 13.6 instead of 14.1. Up to 24 MB
///   that the next kernels write and read again stay in L2 either way; of 40 MB a part does not,
///   which costs less than was won (benchmarks/README.md);
/// - kEvictFirst, where hardly anything is written, leaves what other kernels wrote in L2, instead
///   of waiting for it to be written back. Not for `reads_again`, which hopes to find its rows;
/// - kLastUse keeps those until their last read, and nothing else: loops of gated RMS norms of 2048
///   x 16384 in bf16 take 56.3 us instead of 59.3 with kEvictLast.
ReadPriority read_priority(const SegmentFacts& facts, const DeviceLimits& limits,
                           bool reads_again = false);
/// A kernel that leaves partial results lets the one that finishes them start beside it, where the
/// device can: its launch is then over when the last row is.
DependentLaunch partials_dependent_launch(const SegmentFacts& facts, const DeviceLimits& limits);

/// 32-bit words of the accumulators of outer reductions in a thread that has so many columns: a
/// tuple for each of them, one for each total.
int64_t accumulator_words(const SegmentFacts& facts, int64_t columns);
/// True if some outer reduction accumulates per column, not a total alone.
bool accumulates_columns(const SegmentFacts& facts);
/// Bytes of the accumulators of one column.
int64_t accumulator_column_bytes(const SegmentFacts& facts);
/// What the accumulators of a stage's outer reductions move in shared memory in every row.
struct AccumulatorTraffic {
  int64_t column_bytes = 0;     ///< Read and written, for each column.
  int64_t vector_accesses = 0;  ///< Loads and stores, for each of a thread's vectors.
};
/// None where registers hold them.
AccumulatorTraffic accumulator_traffic(const SegmentFacts& facts, const Stage& stage,
                                       const Schedule& schedule);
/// Shared bytes of the accumulators that a schedule keeps there: a tuple for each column that the
/// vectors of a block's threads reach, in every row slot.
int64_t accumulator_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);
/// Elements of one row of partial results: a value for each column, one for each total.
int64_t partial_elements(const SegmentFacts& facts);
/// Blocks of a persistent grid: as many as are resident at once, or as the rows fill.
int64_t persistent_grid(const SegmentFacts& facts, const Schedule& schedule,
                        const DeviceLimits& limits);
/// Rows of partial results that a persistent schedule leaves: one for every block, whose row slots
/// combine theirs, or one for every cluster.
int64_t partial_rows(const Schedule& schedule);
/// Runs of columns of a column schedule, each a block's or several blocks'.
int64_t column_strips(const SegmentFacts& facts, const Schedule& schedule);
/// Blocks among which it deals the rows of one.
int64_t blocks_per_strip(const Schedule& schedule);
/// Rows that a persistent grid works on at once.
int64_t rows_at_once(const Schedule& schedule);
/// Shared bytes of what the threads of a block keep there, a place for each of their vectors.
int64_t kept_shared_bytes(const SegmentFacts& facts, const Schedule& schedule);
/// Shared bytes in which the row slots of a block combine what they accumulated, batch by batch: a
/// tuple for each element of all slots but one. What lies in shared memory anyway needs none.
int64_t slot_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule);
/// Shared bytes in which the first block of a cluster receives what the others accumulated: a tuple
/// for each element of their first row slots, and an mbarrier. 0 without clusters.
int64_t block_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule);
/// Shared bytes in which the threads of each row combine their totals.
int64_t total_exchange_bytes(const SegmentFacts& facts, const Schedule& schedule);
/// Blocks among which `items` are dealt, `most` at most: as few as take no more turns.
int64_t balanced_blocks(int64_t items, int64_t most);
/// The column family's name, by which the lowering knows its schedules.
inline constexpr std::string_view kColumn = "column";

/// The type in which a value of `type` goes to another thread or block: shuffles and stores between
/// blocks know no bool.
DType travel_type(DType type);
/// Types of the tuple that a reduction carries through an exchange.
boost::container::static_vector<DType, 3> exchange_types(const Fusion& fusion, const Op& reduction);

}  // namespace sinter
