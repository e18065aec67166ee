#pragma once

#include <map>

#include "fusion_ir/fusion.h"
#include "scheduler/segment_facts.h"

namespace sinter {

/// The graph that finishes a segment's outer reductions from partial results.
struct Finish {
  Fusion fusion;
  std::map<ValueId, ValueId> in_plan;  ///< Its inputs and outputs in the segment's graph.
};

/// For every outer reduction an input [rows, columns] of partial results and the same reduction
/// over its rows, then what the segment's graph computes from the reductions up to its outputs.
Finish finish_of(const SegmentFacts& facts, int64_t rows);

}  // namespace sinter
