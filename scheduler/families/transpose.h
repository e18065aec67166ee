#pragma once

#include "scheduler/families/family.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Transpose: no reductions, and tensors that are not all contiguous along the same dimension. A
/// block takes a tile of two dimensions: those along which most bytes are contiguous
/// (tile_space.h). Elements are evaluated and stored in the order of the dimension that has more of
/// these bytes. Tensors that are contiguous along the other pass through shared memory when they
/// are loaded or stored, so that all accesses to memory are coalesced. The grid has one block per
/// tile; the other dimensions are coordinates of the grid.
///
/// Rejects: a reduction; tensors that are all contiguous along one dimension; a segment without
/// elements; an output that does not span the iteration space; tiles that are no powers of two, or
/// have fewer elements than the threads have vectors.
Proposal propose_transpose(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_transpose(const SegmentFacts& facts,
                                                             const Schedule& schedule,
                                                             const DeviceLimits& limits);

Prediction predict_transpose(const SegmentFacts& facts, const Schedule& schedule,
                             const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
