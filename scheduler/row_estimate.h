#pragma once

#include <span>

#include "scheduler/cost_model.h"
#include "scheduler/row_schedule.h"

namespace sinter {

// Where a function takes a StageList it is distribute(facts, schedule.kept): the same for
// every schedule that keeps the same values, so whoever tries many computes it once.

/// What the threads and blocks of a row schedule need, however many blocks are promised, or run if
/// it has a persistent grid.
struct RowNeeds {
  int64_t registers = 0;  ///< Per thread, as ptxas is expected to allocate without a cap.
  int64_t tile = 0;       ///< Of them, those that hold loaded elements.
  int64_t prefetched_registers =
      0;  ///< Of them, those that it takes only where the cap leaves them.
  int64_t shared_bytes = 0;
};
RowNeeds row_needs(const SegmentFacts& facts, const Schedule& schedule, const StageList& list);

/// Resources of a row schedule whose fields are legal. `needs` are row_needs().
ResourceEstimate estimate_row_resources(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const RowNeeds& needs,
                                        const DeviceLimits& limits);
ResourceEstimate estimate_row_resources(const SegmentFacts& facts, const Schedule& schedule,
                                        const StageList& list, const DeviceLimits& limits);

/// Shares of second reads that find their line neither in L1, nor, having missed there, in L2.
struct RereadMisses {
  double l1 = 1.0;
  double l2 = 0.0;
};
/// Of second reads of what the rows in flight have read since: `sm_bytes` on each SM, beside the
/// shared memory of its blocks, and `all_bytes` on the device.
RereadMisses reread_misses(double sm_bytes, double all_bytes, const ResourceEstimate& estimate,
                           const DeviceLimits& limits, const CostConstants& constants = {});

/// Thread instructions that a stage takes for each of a row's elements, accesses among them.
double element_issue_slots(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                           const CostConstants& constants = {});

/// Instructions that the stages of a row kernel are printed as, by ptxas: those of an element as
/// often as it stands in a loop's body or in what is unrolled, and where logarithms are taken in
/// haste once more with care, which rarely runs but stands between what does.
double text_instructions(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
                         const CostConstants& constants = {});
/// The same where element_issue_slots() of each stage are known.
double text_instructions(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
                         std::span<const double> slots, const CostConstants& constants);

/// Microseconds that memory idles in the last turn of blocks that stay, where it has fewer rows
/// than there are blocks: a row takes a wait for memory for each round of its loads, however few
/// others are under way. Cross-entropy of 1024 x 250000 in bf16 takes 152 us in 792 blocks and 137
/// in 1,024 (H200).
double uneven_rows_time(const SegmentFacts& facts, const Schedule& schedule,
                        const ResourceEstimate& estimate, const DeviceLimits& limits,
                        const CostConstants& constants = {});

/// Extra traffic of full tensors whose vector is wider than one access: a thread's accesses then
/// lie side by side, and each access of a warp takes half of every sector it touches. Half of it
/// counts: caches put some of the halves together. Stores in pairs (stores_in_pairs) take whole
/// sectors for 2 instructions an element, which is 1 to 3 % better on an H100, and counted alike:
/// what was fitted on an H200 knew only split ones.
double split_sector_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Bytes of full tensors that reach shared memory in copies of less than 16 bytes of a thread.
double narrow_copy_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Work of a row schedule, for the cost model.
WorkEstimate estimate_row_work(const SegmentFacts& facts, const Schedule& schedule,
                               const StageList& list, const ResourceEstimate& estimate,
                               const DeviceLimits& limits, const CostConstants& constants = {});

/// Time of a row schedule with these resources.
Prediction predict_rows(const SegmentFacts& facts, const Schedule& schedule,
                        const ResourceEstimate& estimate, const DeviceLimits& limits);

/// Checks the fields every row schedule shares: powers of two, vector and access mode, persistent
/// values that exist.
std::optional<Rejection> check_row_schedule(const SegmentFacts& facts, const Schedule& schedule,
                                            const DeviceLimits& limits);

/// Rejects more batches of a row loaded at once than a family unrolls.
std::optional<Rejection> check_unroll(const SegmentFacts& facts, const Schedule& schedule,
                                      int64_t most_batches);

/// Vector widths that are worth trying for a segment's tensors: from 16 bytes of the narrowest
/// element down to 16 bytes of the widest; down to single elements where an output's neighbours lie
/// apart in memory, so that a warp stores more of each sector at once the narrower its vectors are.
struct VectorWidths {
  int64_t widest = 1;
  int64_t narrowest = 1;
};
VectorWidths vector_widths(const SegmentFacts& facts);

/// These widths, widest first, with the row access mode each allows.
struct RowVector {
  int64_t width = 1;
  RowAccess access = RowAccess::kAligned;
};
std::vector<RowVector> row_vectors(const SegmentFacts& facts);

/// Elements of a row that a thread keeps in registers up to which the compiler does with fewer than
/// it wants. RMS-norm gradients with 64 spilled 160 bytes under a cap of 168 that was estimated to
/// do with 147, a softmax with 256 spilled 724 (ptxas 13.0, sm_90a).
inline constexpr int64_t kPrefetchedElements = 32;
/// Elements of 16 bits of a row in a thread's registers up to which ptxas has all of their loads
/// under way before it uses the first (NonPersistentGrid::late_loads_share).
inline constexpr int64_t kLateLoadElements = 64;

/// Numbers of blocks per SM worth promising to the compiler: what the estimated registers and
/// shared memory allow, and one and two more as long as the compiler can squeeze the registers that
/// far.
std::vector<int64_t> occupancies(const SegmentFacts& facts, const Schedule& schedule,
                                 const RowNeeds& needs, const DeviceLimits& limits);

/// Column inputs (weights, biases) that stages after the first barrier read. `list`: with the cut
/// kept, which may spare a later stage its weights.
std::vector<ValueId> late_columns(const SegmentFacts& facts, const StageList& list);

/// Outer reductions that keep the columns accumulate per column: one of values that do not vary
/// along them is refused.
std::optional<Rejection> check_outer_operands(const SegmentFacts& facts, std::string_view family);

/// What keeps outer reductions from leaving partial results: tuples, or columns that several
/// strides walk. Nothing: there are none, or they may.
std::optional<Rejection> check_outer_reductions(const SegmentFacts& facts, std::string_view family);

/// An output that is neither stored once in every row nor after all of them.
std::optional<Rejection> check_row_outputs(const SegmentFacts& facts, std::string_view family);

/// Rules that segments must meet before rows make sense at all; empty if they do.
std::vector<Rejection> check_row_segment(const SegmentFacts& facts, std::string_view family);

}  // namespace sinter
