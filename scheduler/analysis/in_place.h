#pragma once

#include <optional>
#include <vector>

#include "scheduler/analysis/segment_facts.h"

namespace sinter {

/// The outputs of a segment that overwrite an input that it reads (OutputLayout::alias). One thread
/// reads and writes each such element, in the same iteration, so no ordering between threads is
/// needed. The failing side says why not: an output that is not stored element by element, or an
/// input that is read at other elements than those written. For tensor lists, pass the member's
/// facts.
tl::expected<std::vector<InPlace>, Rejection> find_in_place(const SegmentFacts& facts);

}  // namespace sinter
