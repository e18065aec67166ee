#pragma once

#include <cstdint>

#include "scheduler/analysis/member_finder.h"

namespace sinter {

/// A member of a list as a graph of its own, whose tensors have one axis of `elements` elements.
/// Its inputs are the member's leaves, in order, and scalars have no axis.
Fusion member_graph(const Fusion& fusion, const MemberFinder& finder, const EncodedMember& member,
                    int64_t elements);

}  // namespace sinter
