#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/analysis/stages.h"
#include "scheduler/schedule/access_kinds.h"
#include "scheduler/schedule/schedule.h"

namespace sinter {

/// Registers per thread that ptxas is expected to give a row or pointwise schedule without a cap.
/// `list` is the distribution under the schedule's persistent values.
///
/// A linear model of the values alive at once in the widest stage. Its constants are fitted to
/// ptxas 13.0 over 2,300 schedules, random and chosen, of all canned fusions for sm_80, sm_89,
/// sm_90a, sm_100a and sm_120a. `sinter_budget_truth` measures the error again, and
/// tests/integration/nvrtc_sweep_test.cpp bounds it.
int64_t estimate_registers(const SegmentFacts& facts, const Schedule& schedule,
                           const StageList& list);

/// Part of these registers that ptxas takes only if the cap leaves room: an unrolled row prefetches
/// accumulators from shared memory. 0 for other schedules.
int64_t estimate_prefetch_registers(const SegmentFacts& facts, const Schedule& schedule);

/// Part of these registers that holds loaded elements: values kept in registers, and the vectors in
/// flight at once. Loads stay in order, so ptxas cannot do with fewer.
int64_t estimate_tile_registers(const SegmentFacts& facts, const Schedule& schedule,
                                const StageList& list);

/// The three estimates of a schedule.
struct RegisterEstimate {
  int64_t registers = 0;   ///< estimate_registers().
  int64_t tile = 0;        ///< estimate_tile_registers().
  int64_t prefetched = 0;  ///< estimate_prefetch_registers().
};

/// Estimates the registers of many schedules that have their stages, vector width and row access in
/// common. What the widest stage takes also follows from the kept values and the batches in flight:
/// it is found once for all schedules that share these. All arguments outlive it.
class StageRegisters {
 public:
  StageRegisters(const SegmentFacts& facts, const StageList& list, const AccessKinds& kinds)
      : facts_(facts), list_(list), kinds_(kinds) {}

  RegisterEstimate estimate(const Schedule& schedule);

  /// Number of times that all stages were looked at.
  [[nodiscard]] size_t walks() const { return known_.size(); }

 private:
  struct Known {
    std::vector<KeptValue> kept;
    int64_t batches = 0;  ///< Held; 0 if nothing is.
    int64_t batches_at_once = 0;
    double widest = 0.0;       ///< Registers of the widest stage.
    int64_t widest_words = 0;  ///< Words that the stage with most of them loads at once.
  };

  const SegmentFacts& facts_;
  const StageList& list_;
  const AccessKinds& kinds_;
  std::vector<Known> known_;
};

}  // namespace sinter
