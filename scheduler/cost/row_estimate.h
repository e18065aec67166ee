#pragma once

#include <memory>
#include <span>

#include "scheduler/analysis/stages.h"
#include "scheduler/budgets/register_estimate.h"
#include "scheduler/budgets/row_resources.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/schedule/access_kinds.h"
#include "scheduler/schedule/row_schedule.h"

namespace sinter {

/// Miss rates of second reads: the share that misses L1, and of those the share that misses L2 too.
struct RereadMisses {
  double l1 = 1.0;
  double l2 = 0.0;
};

/// Bytes that rows read again because L2 has lost them: of tensors that repeat for several rows, in
/// the order of the rows, where more than L2's share lies between.
double repeated_read_bytes(const SegmentFacts& facts, const DeviceLimits& limits);

/// Miss rates of second reads of rows in flight. Between the first and the second read, `sm_bytes`
/// are read on each SM, whose L1 shares its store with the shared memory of the resident blocks,
/// and `all_bytes` on the whole device.
RereadMisses reread_misses(double sm_bytes, double all_bytes, const ResourceEstimate& estimate,
                           const DeviceLimits& limits);

/// Thread instructions of a stage per element of a row, memory accesses included.
double element_issue_slots(const SegmentFacts& facts, const Stage& stage, const Schedule& schedule,
                           const CostConstants& constants);

/// Code size of the stages of a row kernel, in ptxas instructions. The instructions of an element
/// count once for each copy in a loop body or an unrolled row. A logarithm with a fast path counts
/// its slow path too: it rarely runs, but takes room in the instruction cache.
double text_instructions(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
                         const CostConstants& constants);

/// The same with element_issue_slots() of each stage already computed.
double text_instructions(const SegmentFacts& facts, const Schedule& schedule, const StageList& list,
                         std::span<const double> slots, const CostConstants& constants);

/// Microseconds that DRAM idles in the last round of a persistent grid, if that round has fewer
/// rows than there are blocks. Each round of a row's loads waits for DRAM once, however few other
/// loads are in flight. Measurement: docs/experiments/constants_cost.md.
double uneven_rows_time(const SegmentFacts& facts, const Schedule& schedule,
                        const ResourceEstimate& estimate, const DeviceLimits& limits);

/// Extra L2 traffic, in bytes, of full tensors whose vectors are wider than one access. The
/// accesses of one thread are then adjacent, so each access of a warp uses half of every sector
/// that it touches. Half of the waste counts, because caches merge some of the halves. Paired
/// stores (stores_in_pairs) write whole sectors for 2 instructions per element. They count alike,
/// because the constants fitted on an H200 know only split stores. Measurement:
/// docs/experiments/constants_cost.md.
double split_sector_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Bytes of full tensors that threads copy to shared memory in pieces of less than 16 bytes.
double narrow_copy_bytes(const SegmentFacts& facts, const Schedule& schedule);

/// Bytes that stages read.
struct StageReads {
  double again = 0.0;    ///< Full tensors that an earlier stage has read.
  double beside = 0.0;   ///< Full tensors read first in a stage with second reads.
  double weights = 0.0;  ///< Weights that one row reads in such stages.
};

/// What the stages of a row cost, as far as it follows from the vector width, the row access and
/// the residency of accumulators. All schedules that share these and the stages have it in common,
/// so whoever tries many computes it once.
struct StageCosts {
  StageCosts(const SegmentFacts& facts, const Schedule& schedule, const StageList& stage_list,
             const CostConstants& constants);

  const StageList* list;  ///< Outlives this.
  AccessKinds kinds;
  StageReads reads;
  struct Loads {
    double issue_slots = 0.0;      ///< element_issue_slots().
    std::vector<ValueId> streams;  ///< Loaded full tensors that do not repeat along the columns.
    bool from_memory = false;      ///< No earlier stage has read one of their tensors.
  };
  std::vector<Loads> stages;
};

/// What schedules of one StageList, vector width, row access and residency of accumulators share.
struct SharedEstimates {
  SharedEstimates(const SegmentFacts& facts, const Schedule& alike, const StageList& list,
                  const DeviceLimits& limits)
      : costs(std::make_unique<StageCosts>(facts, alike, list, limits.cost)),
        registers(facts, list, costs->kinds) {}

  [[nodiscard]] const StageList& list() const { return *costs->list; }

  std::unique_ptr<const StageCosts> costs;  ///< At one address, for `registers` refers to it.
  StageRegisters registers;
};

/// Work of a row schedule, for the cost model.
WorkEstimate estimate_row_work(const SegmentFacts& facts, const Schedule& schedule,
                               const StageCosts& costs, const ResourceEstimate& estimate,
                               const DeviceLimits& limits);
WorkEstimate estimate_row_work(const SegmentFacts& facts, const Schedule& schedule,
                               const StageList& list, const ResourceEstimate& estimate,
                               const DeviceLimits& limits);

/// Time of a row schedule with these resources.
Prediction predict_rows(const SegmentFacts& facts, const Schedule& schedule,
                        const ResourceEstimate& estimate, const DeviceLimits& limits);

/// Number of 16-bit elements of a row per thread up to which ptxas issues all of their loads before
/// it uses the first (NonPersistentGrid::late_loads_share).
inline constexpr int64_t kLateLoadElements = 64;

/// Column inputs (weights, biases) that stages after the first barrier read. `list` is the
/// distribution with the cut kept, so a later stage may not need its weights.
std::vector<ValueId> late_columns(const SegmentFacts& facts, const StageList& list);

}  // namespace sinter
