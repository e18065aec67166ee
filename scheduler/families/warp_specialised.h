#pragma once

#include "scheduler/cost/cost_model.h"
#include "scheduler/families/family.h"

namespace sinter {

/// Warp-specialised: one producer thread fills a pipeline of `pipeline_stages` rows by bulk copies.
/// rows_per_block consumer groups of threads_per_row threads take the rows one after the other;
/// each group synchronises by mbarriers and a named barrier of its own. The grid is persistent.
/// Column reductions accumulate in registers, or in shared memory where registers do not suffice. A
/// value that a later stage needs again stays in registers (residency register) or is read from the
/// pipeline stage again (reload). Weights of the columns may lie in shared memory instead (shared),
/// a copy for each group.
///
/// A group may work on several rows at once, which share a pipeline stage and one exchange of
/// statistics for each stage of the computation.
///
/// Fields of its own: `pipeline_stages`, a multiple of the groups times the rows that each works
/// on; `rows_per_iteration`, those rows: 1, 2 or 4; `consumer_registers`, the limit per thread that
/// consumer warps raise with setmaxnreg after the producer has lowered its own, or 0.
///
/// Rejects: devices without bulk copies; rows that are no multiple of 16 bytes or not aligned to
/// them; tuples or several column dimensions in column reductions; no column reduction.
Proposal propose_warp_specialised(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_warp_specialised(const SegmentFacts& facts,
                                                                    const Schedule& schedule,
                                                                    const DeviceLimits& limits);

Prediction predict_warp_specialised(const SegmentFacts& facts, const Schedule& schedule,
                                    const ResourceEstimate& estimate, const DeviceLimits& limits,
                                    const CostConstants& constants = {});

}  // namespace sinter
