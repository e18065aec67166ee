#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/segment_facts.h"

namespace sinter {

/// What one stage does for each element of a row, under a choice of what is kept.
struct Stage {
  std::vector<ValueId> loads;     ///< Read from memory in this stage, in order of use.
  std::vector<ValueId> computed;  ///< Evaluated per element, in topological order.
  std::vector<ValueId>
      kept;  ///< Persistent values that become available here (loaded or computed).
  std::vector<OpId> reductions;  ///< Their operands are tile values of this stage.
  std::vector<OpId> outer;       ///< Outer reductions that take elements of this stage.
  std::vector<size_t> outputs;   ///< Indices of outputs stored per element here.
  /// Of row values that wait for no reduction, those that look elements up where one points, for
  /// what waits for this stage's reductions alone: they are on their way while threads combine what
  /// they have reduced, the second time where they do so twice. In topological order.
  std::vector<ValueId> gathered;
  std::vector<ValueId>
      row_values;            ///< Evaluated once per row after the reductions, in topological order.
  std::vector<OpId> totals;  ///< Outer reductions that take one of those, or a reduction's result.
  double issue_slots = 0.0;  ///< Instructions per element: casts, arithmetic, accumulation.
  /// Multiplications among them that take none of their own, because what they go into adds them.
  int64_t fused_products = 0;
  double special_functions = 0.0;
  int64_t live_values = 0;  ///< Peak of computed values alive at once in one element's evaluation.
  friend bool operator==(const Stage&, const Stage&) = default;
};

struct StageList {
  /// Row values that wait for no reduction, evaluated first; not Stage::gathered.
  std::vector<ValueId> row_values;
  std::vector<OpId> totals;  ///< Outer reductions that take one of those.
  std::vector<Stage> stages;
  /// Row values that the last stage takes from those before it, of all rows of a turn; ascending.
  std::vector<ValueId> tile_row_values;
  friend bool operator==(const StageList&, const StageList&) = default;
};

/// Distributes the segment's work over its stages when the values in `persistent` with residency
/// register or shared are kept. The estimates and the lowering both follow this list.
StageList distribute(const SegmentFacts& facts, const std::vector<KeptValue>& kept);

/// Distributes the segment's work over the turns of a schedule that keeps no elements
/// (Schedule::rows_per_tile). All stages but the last reduce the rows of a turn, one row after the
/// other, and have what is there once a row. The last one goes through the elements of all these
/// rows once more: it has every outer reduction and every output of elements. Where only totals
/// are left of those, they are taken while rows are reduced.
StageList distribute_two_pass(const SegmentFacts& facts);

/// For every persistent value kept in registers or shared memory, whether a stage after the one
/// that makes it available reads it. A value that later stages compute again from other kept values
/// is not needed; what all rows have in common is needed by the rows that follow, where blocks walk
/// rows.
std::vector<bool> needed_later(const SegmentFacts& facts, const std::vector<KeptValue>& kept);

}  // namespace sinter
