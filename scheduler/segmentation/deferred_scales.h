#pragma once

#include <optional>

#include "fusion_ir/fusion.h"

namespace sinter {

/// The graph with scales of rows behind contractions: sums of (x r) w become sums of x w, times r,
/// where r is the same for all that is summed, such as the reciprocal norm of a row. Then x need
/// not be scaled in memory. No value if there is no such scale.
///
/// A scale moves if nothing but the contraction reads the scaled operand, and if x has the type of
/// the operand or was that before a cast: what was rounded after scaling is not rounded then, and
/// nothing else is. Sums of unscaled numbers may overflow where those of scaled ones do not.
std::optional<Fusion> with_deferred_scales(const Fusion& fusion);

}  // namespace sinter
