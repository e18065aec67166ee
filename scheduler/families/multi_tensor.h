#pragma once

#include <string_view>

#include "scheduler/families/family.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Multi-tensor: one pointwise computation over many tensors of different sizes, an optimizer's
/// update of all parameters say (tensor_list.h). A block takes a tile of threads x vector x unroll
/// elements of one member, which it finds by searching a table of the members' first blocks;
/// addresses, sizes and first blocks are arguments, so that lists of about the same length run one
/// compiled kernel. Each member's last tile is guarded, by element unless all members end with a
/// vector.
///
/// Rejects: a segment that is no list; a list whose tables exceed the arguments of a kernel
/// (kMostArgumentBytes).
std::optional<Rejection> refuse_multi_tensor(const SegmentFacts& facts);

Proposal propose_multi_tensor(const SegmentFacts& facts, const DeviceLimits& limits);

tl::expected<ResourceEstimate, Rejection> estimate_multi_tensor(const SegmentFacts& facts,
                                                                const Schedule& schedule,
                                                                const DeviceLimits& limits);

Prediction predict_multi_tensor(const SegmentFacts& facts, const Schedule& schedule,
                                const ResourceEstimate& estimate, const DeviceLimits& limits);

}  // namespace sinter
