#pragma once

#include <span>

#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/row_resources.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

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

/// Elements of 16 bits of a row in a thread's registers up to which ptxas has all of their loads
/// under way before it uses the first (NonPersistentGrid::late_loads_share).
inline constexpr int64_t kLateLoadElements = 64;

/// Column inputs (weights, biases) that stages after the first barrier read. `list`: with the cut
/// kept, which may spare a later stage its weights.
std::vector<ValueId> late_columns(const SegmentFacts& facts, const StageList& list);

}  // namespace sinter
