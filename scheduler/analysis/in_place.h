#pragma once

#include <optional>
#include <vector>

#include "scheduler/analysis/segment_facts.h"

namespace sinter {

/// The outputs of a segment that take over the memory of an input that it reads
/// (OutputLayout::alias). Every element is then read and written by one thread, at one place of the
/// walk, so that nothing has to be ordered between threads. The failing side says what is in the
/// way: an output that is not stored element by element, or an input that is read at other elements
/// than those written. Of lists the member's facts are asked.
tl::expected<std::vector<InPlace>, Rejection> find_in_place(const SegmentFacts& facts);

}  // namespace sinter
