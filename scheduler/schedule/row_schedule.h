#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

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

/// Rows that a persistent grid works on at once.
int64_t rows_at_once(const Schedule& schedule);

/// Blocks among which `items` are dealt, `most` at most: as few as take no more turns.
int64_t balanced_blocks(int64_t items, int64_t most);

/// The type in which a value of `type` goes to another thread or block: shuffles and stores between
/// blocks know no bool.
DType travel_type(DType type);

/// Types of the tuple that a reduction carries through an exchange.
boost::container::static_vector<DType, 3> exchange_types(const Fusion& fusion, const Op& reduction);

/// The one of the two that the schedule asks for.
StageList stages_of(const SegmentFacts& facts, const Schedule& schedule);

/// 32-bit registers that hold `elements` packed elements of `bytes` bytes.
constexpr int64_t register_words(int64_t elements, int64_t bytes) {
  return (elements * bytes + kRegisterBytes - 1) / kRegisterBytes;
}

}  // namespace sinter
