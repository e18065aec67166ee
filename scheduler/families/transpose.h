#pragma once

#include "scheduler/families/family.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Transpose: no reductions, and tensors that are not all fastest along one dimension. A block
/// takes a tile of the two dimensions along which most bytes are fastest (tile_space.h). Elements
/// are evaluated and stored in the order of the dimension that has more of them; what is fastest
/// along the other passes through shared memory, on its way in or out, so that all accesses to
/// memory are runs. One block per tile; the other dimensions are coordinates of the grid.
///
/// Rejects: a reduction; tensors that are all fastest along one dimension; a segment without
/// elements; an output that does not span the iteration space; tiles that are no powers of two, or
/// have fewer elements than the threads have vectors.
Proposal propose_transpose(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_transpose(const SegmentFacts& facts,
                                                             const Schedule& schedule,
                                                             const DeviceLimits& limits);

Prediction predict_transpose(const SegmentFacts& facts, const Schedule& schedule,
                             const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
