#pragma once

#include <map>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/segment_facts.h"

namespace sinter {

/// A part of a segment's graph as a graph of its own.
struct Subgraph {
  Fusion fusion;
  std::map<ValueId, ValueId> in_plan;  ///< The segment's values for its inputs and outputs.
};

/// The subgraph that combines the partial results of a segment's outer reductions. Each reduction
/// becomes an input [rows, columns] of partial results, of a total [rows], and the same reduction
/// over its rows. The rest of the segment's graph up to its outputs follows.
Subgraph finish_of(const SegmentFacts& facts, int64_t rows);

/// A segment with inner and outer reductions, split into two with one kind each. Both read the
/// inputs. Nothing accumulates from row to row, so rows may have any width.
struct RowsAndColumns {
  Subgraph rows;     ///< The outputs that depend on no outer reduction, then `passed`.
  Subgraph columns;  ///< The outer reductions and what depends on them; reads `passed`.
  /// Row values of the segment's graph that depend on inner reductions and that `columns` needs,
  /// without those that are outputs anyway.
  std::vector<ValueId> passed;
};
RowsAndColumns split_rows_and_columns(const SegmentFacts& facts);

}  // namespace sinter
