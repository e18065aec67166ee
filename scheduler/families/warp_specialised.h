#pragma once

#include "scheduler/cost/cost_model.h"
#include "scheduler/families/family.h"

namespace sinter {

/// Warp-specialised: one producer thread fills a pipeline of `pipeline_stages` rows by bulk copies.
/// rows_per_block consumer warp groups of threads_per_row threads take the rows in turn. Each group
/// synchronises by mbarriers and a named barrier of its own. The grid is persistent. Column
/// reductions accumulate in registers, or in shared memory if registers do not suffice. A value
/// that a later stage needs again stays in registers (residency register) or is read again from the
/// pipeline stage (reload). Weights of the columns may lie in shared memory instead (shared), a
/// copy for each group.
///
/// A group may work on several rows at once (unroll-and-jam). These share a pipeline stage and one
/// exchange of statistics per stage of the computation.
///
/// Fields of its own: `pipeline_stages`, a multiple of the number of groups times the rows per
/// iteration; `rows_per_iteration`, the rows that a group works on at once: 1, 2 or 4;
/// `consumer_registers`, the register limit per thread to which consumer warps raise theirs with
/// setmaxnreg after the producer has lowered its own, or 0.
///
/// Rejects: devices without bulk copies; rows that are no multiple of 16 bytes or not aligned to
/// them; tuples or several column dimensions in column reductions; no column reduction.
Proposal propose_warp_specialised(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_warp_specialised(const SegmentFacts& facts,
                                                                    const Schedule& schedule,
                                                                    const DeviceLimits& limits);

Prediction predict_warp_specialised(const SegmentFacts& facts, const Schedule& schedule,
                                    const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
