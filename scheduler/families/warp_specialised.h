#pragma once

#include "scheduler/cost/cost_model.h"
#include "scheduler/families/family.h"

namespace sinter {

/// Warp-specialised: one producer thread keeps a ring of `stages` rows filled by bulk copies, and
/// rows_per_block groups of threads_per_row threads take the rows in turns, each behind mbarriers
/// and a named barrier of its own. A persistent grid; outer reductions accumulate in registers, or
/// in shared memory beside the ring where those do not suffice. What a later stage needs again is
/// held in registers (residency register) or read from the ring again (reload); weights of the
/// columns may lie in shared memory instead (shared), each group with a copy of its own.
///
/// A group may work on several rows side by side, in a slot of the ring for all of them: in each
/// stage they wait for one exchange.
///
/// Fields of its own: `stages`, a multiple of the groups times the rows that each works on;
/// `rows_per_iteration`, those rows: 1, 2 or 4; `consumer_registers`, the limit per thread
/// that compute warps raise with setmaxnreg after the producer gave its share up, or 0.
///
/// Rejects: devices without bulk copies; rows that are no multiple of 16 bytes or not aligned to
/// them; tuples or several column dimensions in outer reductions; no inner reduction and no outer
/// one.
Proposal propose_warp_specialised(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_warp_specialised(const SegmentFacts& facts,
                                                                    const Schedule& schedule,
                                                                    const DeviceLimits& limits);

Prediction predict_warp_specialised(const SegmentFacts& facts, const Schedule& schedule,
                                    const ResourceEstimate& estimate, const DeviceLimits& limits,
                                    const CostConstants& constants = {});

}  // namespace sinter
