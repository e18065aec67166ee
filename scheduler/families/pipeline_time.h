#pragma once

#include <span>
#include <vector>

#include "scheduler/cost/cost_model.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/family.h"

// What a pipelined kernel of rows takes, beyond the cost model of all kernels: the waits of its
// groups for each other and for memory, and the weights that the pipeline leaves no cache for.

namespace sinter {

/// Bytes of all pipelines of an SM.
double bytes_in_flight(const SegmentFacts& facts, const Schedule& schedule,
                       const ResourceEstimate& estimate);

/// Nanoseconds that one iteration (one row, or several at once) waits for its threads to
/// synchronise. Rows that are not reduced have no exchange.
double exchange_time(const SegmentFacts& facts, const Schedule& schedule,
                     const CostConstants& constants);

/// Work of the rows of a pipeline, independent of its depth: the parts of the estimate that depend
/// on the number of stages are left out.
struct PipelineWork {
  WorkEstimate work;             ///< Without the weights that come from L2.
  std::vector<ValueId> weights;  ///< Those that rows read from cache, once for each stage.
  double exchange_ns = 0.0;      ///< Exchange time of an iteration, of one row or several.
  double own_ns = 0.0;           ///< Time of each row without the exchange.
  double register_limit = 1.0;   ///< Factor on both times if it is register-limited.
};

/// Registers per consumer thread: those that its rows need, and those that the launch gives.
struct PipelineRegisters {
  int64_t needed = 0;
  int64_t launch = 0;
};

PipelineWork pipeline_work(const SegmentFacts& facts, const Schedule& schedule,
                           const StageCosts& costs, const PipelineRegisters& registers,
                           const ResourceEstimate& estimate, const DeviceLimits& limits);

Prediction predict_pipeline(const SegmentFacts& facts, const Schedule& schedule,
                            const PipelineWork& pipeline, const ResourceEstimate& estimate,
                            const DeviceLimits& limits);

/// Lower bound in microseconds, over all depths, of a pipeline whose groups work on `rows` rows per
/// iteration: the additional rows are charged their throughput only. `slot_counts`: stages per
/// group that are tried.
double least_with_row_unroll(const SegmentFacts& facts, const ProposedSchedule& pipeline,
                             int64_t rows, std::span<const int64_t> slot_counts,
                             const DeviceLimits& limits);

}  // namespace sinter
