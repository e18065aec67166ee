#pragma once

#include <bit>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/segment_facts.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

inline bool is_power_of_two(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

/// A rejection of a schedule, with its family as the subject.
Rejection rejected(const Schedule& schedule, std::string rule, int64_t value, int64_t limit,
                   std::string unit, std::string remedy);

/// True if one stride addresses all columns, so that a column's address takes no division.
bool has_one_stride(const IterationSpace& space, const TensorAccess& access);

/// How a tensor is accessed under a schedule.
enum class AccessKind : uint8_t {
  kVector,   ///< Whole vectors, aligned.
  kUniform,  ///< One element for the whole vector: the tensor does not vary inside it.
  kElement,  ///< One access per element.
};

AccessKind access_kind(const SegmentFacts& facts, const TensorAccess& access,
                       const Schedule& schedule);

/// True if a thread's vectors of an input can be copied to shared memory with cp.async.
bool copies_async(const SegmentFacts& facts, const Schedule& schedule, ValueId value);

/// True if adjacent lanes exchange halves of their vectors before they store an output, where no
/// vector is predicated. A vector of two or more accesses is then stored by two threads together,
/// so that each access of the warp fills whole sectors instead of every second half. Only for
/// 4-byte elements, for warps that work on one row, and not for an output in the memory of an
/// input, where another thread may still read its part.
bool stores_in_pairs(const SegmentFacts& facts, const Schedule& schedule, size_t output);

/// The tensor whose alignment determines the peeled elements of RowAccess::kUnaligned: the first
/// full one whose rows are contiguous and whose base is aligned to 16 bytes; nullptr if there is
/// none.
const TensorAccess* shift_reference(const SegmentFacts& facts);

/// Rejects vector widths no access can have.
std::optional<Rejection> check_vector_width(const Schedule& schedule);

/// Rejects unaligned row access, for families whose blocks walk all elements from the first one, or
/// walk columns, and peel nothing: their vectors would be misaligned if the first element is not on
/// a vector boundary.
std::optional<Rejection> refuse_unaligned_access(const Schedule& schedule);

/// Inputs kept in registers that are prefetched one row ahead, into further registers. In a
/// two-pass schedule these are the full inputs of the second pass. None if prefetch_rows is 0.
std::vector<ValueId> prefetched_inputs(const SegmentFacts& facts, const Schedule& schedule);

/// 32-bit words per thread of those registers and of prefetched row values.
int64_t prefetched_words(const SegmentFacts& facts, const Schedule& schedule);

/// Rejects row access modes and vector widths that are illegal for this segment.
std::optional<Rejection> check_row_access(const SegmentFacts& facts, const Schedule& schedule);

/// Most peeled elements of an unaligned row: those before its first whole vector, which starts at a
/// vector boundary, and those behind its last.
int64_t most_peeled_elements(const Schedule& schedule);

/// Most peeled elements of one thread. 0 if rows are aligned or empty, or vectors have one element.
int64_t peeled_count(const SegmentFacts& facts, const Schedule& schedule);

/// Most columns of a row, in whole vectors, of each block of a cluster; the last block may have
/// fewer. The first block also has the peeled elements of unaligned rows.
int64_t columns_per_block(const SegmentFacts& facts, const Schedule& schedule);

/// Fewest columns, in whole vectors, of the last block of a cluster, wherever rows start. Zero or
/// negative if rows are too short for so many blocks.
int64_t columns_of_last_block(const SegmentFacts& facts, const Schedule& schedule);

/// How the batches of a row are predicated. Batch b covers the columns [b * T * V, (b + 1) * T *
/// V), counted from the first whole vector.
enum class Predication : uint8_t {
  kNone,     ///< Every element exists.
  kVector,   ///< A thread's vector is inside the row or outside it.
  kElement,  ///< Single elements may be outside.
};

/// Consecutive batches with the same predication.
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

/// Number of batches of a block's columns.
int64_t batch_count(const SegmentFacts& facts, const Schedule& schedule);

/// Groups of a register fragment that holds a thread's share of a row: one for each batch and each
/// peeled element.
int64_t group_count(const SegmentFacts& facts, const Schedule& schedule);

/// Elements of a row that a thread iterates over, inside the row or predicated off.
int64_t elements_per_thread(const SegmentFacts& facts, const Schedule& schedule);

/// True if the schedule keeps a value of the row in registers between stages.
bool keeps_in_registers(const Schedule& schedule);

/// True if the batches of a row are unrolled, because registers that are indexed by batch hold a
/// kept value, accumulators or the result of a contraction.
bool unrolls_batches(const SegmentFacts& facts, const Schedule& schedule);

/// Chunks of `unroll` batches that a thread processes one after the other. A shorter last chunk is
/// loaded together. Peeled elements belong to a last chunk that is no part of a loop; otherwise
/// they form a chunk of their own.
int64_t chunk_count(const SegmentFacts& facts, const Schedule& schedule);

/// Batches of one predication, `batches` at a time: a loop over chunks, or a single chunk.
struct ChunkRun {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t batches = 0;
  Predication predication = Predication::kNone;
  /// The thread's peeled elements belong to this run, which may then have no batches.
  bool edges = false;
  /// A single chunk, which needs no loop.
  [[nodiscard]] bool is_one() const { return end - begin == batches; }
  friend bool operator==(const ChunkRun&, const ChunkRun&) = default;
};

/// The loops and single chunks of a thread's walk along a row in chunks of `unroll` batches, in
/// order.
std::vector<ChunkRun> chunk_runs(const SegmentFacts& facts, const Schedule& schedule,
                                 int64_t unroll);

/// Rows per block to offer for a block of `block_threads` threads: no more than exist, and no fewer
/// than a warp covers.
int64_t offered_rows(const SegmentFacts& facts, int64_t block_threads, int64_t threads_per_row);

/// Rows of a block that exist.
int64_t existing_rows(const SegmentFacts& facts, const Schedule& schedule);

/// Batches for which a thread has accumulators, and which it unrolls if it has any: those of its
/// whole row, or of one chunk in a two-pass schedule.
int64_t held_batches(const SegmentFacts& facts, const Schedule& schedule);

/// Most elements of a row in a thread's registers for which two-pass statistics cover the whole row
/// if elements are converted first: ptxas keeps the conversions of both passes alive together.
/// Measurement: docs/experiments/constants_cost.md.
inline constexpr int64_t kMostConvertedTwice = 32;

/// True if a reduction goes through its elements twice: first for their mean or extreme, then for
/// the deviations from it or its position.
bool takes_two_passes(const OpKind& kind);

/// True if the two-pass statistics of stage s cover the whole row in each pass, because the second
/// pass reads only kept values. Otherwise they process one chunk after the other.
bool passes_over_whole_row(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage,
                           size_t s);

/// True if the threads of a row also synchronise between the two passes. Deviations are then summed
/// from one pivot or maximum of the row; otherwise every step of the exchange merges tuples. One
/// step of a Welford merge takes 32 instructions, one of three sums 6. Not if a Welford pivot could
/// not bear an outlier (pivot_bears_outlier).
bool syncs_between_passes(const SegmentFacts& facts, const Schedule& schedule, const Stage& stage,
                          size_t s);

/// Number of leading threads of a row whose elements give the pivot of its synchronised Welford
/// statistics: the largest power of two of threads that have elements in every row. The mean of
/// equal elements, summed by a tree, is then exactly the element.
int64_t pivot_threads(const SegmentFacts& facts, const Schedule& schedule);

/// True if enough threads share the pivot: the sums of squares from it neither overflow where m2
/// does not, nor cancel to less than a quarter, when one of their elements is far from the rest.
bool pivot_bears_outlier(const SegmentFacts& facts, const Schedule& schedule);

/// Rows that a persistent grid processes at once.
int64_t rows_at_once(const Schedule& schedule);

/// Blocks, at most `most`, over which to distribute `items`: the fewest that need no more rounds.
int64_t balanced_blocks(int64_t items, int64_t most);

/// The type in which a value of `type` is sent to another thread or block: shuffles and stores
/// between blocks do not support bool.
DType travel_type(DType type);

/// Types of the tuple that a reduction exchanges.
boost::container::static_vector<DType, kMostComponents> exchange_types(const Fusion& fusion,
                                                                       const Op& reduction);

/// Elements of the one store that sends a tuple of these types to another block of a cluster, in at
/// most 16 bytes (PTX ISA, "st.async"). 1: each component is sent alone.
int64_t sent_together(std::span<const DType> types);

/// Places of a message with so many values: a power of two, so that two of them are accessed at
/// once.
constexpr int64_t places_of_tuple(size_t values) {
  return static_cast<int64_t>(std::bit_ceil(values));
}

/// Stores with which a tuple of a reduction is sent to another block of a cluster.
int64_t stores_of_tuple(const Fusion& fusion, const Op& reduction);

/// The stage list of the schedule: distribute_two_pass() if it is two-pass, otherwise distribute().
StageList stages_of(const SegmentFacts& facts, const Schedule& schedule);

/// 32-bit registers that hold `elements` packed elements of `bytes` bytes.
constexpr int64_t register_words(int64_t elements, int64_t bytes) {
  return (elements * bytes + kRegisterBytes - 1) / kRegisterBytes;
}

}  // namespace sinter
