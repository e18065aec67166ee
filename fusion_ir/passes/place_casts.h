#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// Moves casts to where they touch the fewest bytes. A cast of a broadcast becomes a broadcast of a
/// cast; permute, reshape, slice and take run on the narrower type: before a widening cast, after a
/// narrowing one (if the wide moved value has no other reader). A cast acts on each element alone,
/// so values are unchanged; an index outside the range gives 0 either way.
/// After: no cast follows a broadcast, no data movement follows a widening cast.
/// Needs: a verified graph.
/// Stands before algebra, which cancels casts that have come to stand side by side.
std::optional<Fusion> place_casts(const Fusion& fusion);

}  // namespace sinter
