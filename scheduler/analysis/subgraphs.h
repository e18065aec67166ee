#pragma once

#include <map>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/segment_facts.h"

namespace sinter {

/// A part of a segment's graph as a graph of its own.
struct Subgraph {
  Fusion fusion;
  std::map<ValueId, ValueId> in_plan;  ///< Its inputs and outputs in the segment's graph.
};

/// What finishes a segment's outer reductions from partial results: for every one an input
/// [rows, columns] of them, of a total [rows], and the same reduction over its rows, then what the
/// segment's graph computes from the reductions up to its outputs.
Subgraph finish_of(const SegmentFacts& facts, int64_t rows);

/// A segment with inner and outer reductions as two that each have one kind. Both read the inputs;
/// nothing has to be accumulated from row to row, so rows may have any width.
struct RowsAndColumns {
  Subgraph rows;     ///< The outputs that outer reductions have no part in, then `passed`.
  Subgraph columns;  ///< The outer reductions and what follows from them; reads `passed`.
  /// Row values that depend on inner reductions and that the columns need, in the segment's graph;
  /// those that are outputs anyway are left out.
  std::vector<ValueId> passed;
};
RowsAndColumns split_rows_and_columns(const SegmentFacts& facts);

}  // namespace sinter
