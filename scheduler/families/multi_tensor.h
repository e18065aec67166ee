#pragma once

#include <string_view>

#include "scheduler/families/family.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {

/// Multi-tensor: one pointwise computation over many tensors of different sizes, such as an
/// optimizer's update of all parameters (tensor_list.h). A block takes a tile of threads x vector x
/// unroll elements of one member. It finds the member by searching a table of the members' first
/// blocks. Addresses, sizes and first blocks are kernel arguments, so that lists of about the same
/// length run one compiled kernel. Each member's last tile is predicated: by vector if all members
/// end with a whole vector, else by element.
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
