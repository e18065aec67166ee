#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/analysis/segment_facts.h"

namespace sinter {

/// The work of one stage for each element of a row, for a given set of kept values.
struct Stage {
  std::vector<ValueId> loads;     ///< Read from memory in this stage, in order of use.
  std::vector<ValueId> computed;  ///< Evaluated per element, in topological order.
  std::vector<ValueId>
      kept;  ///< Persistent values that become available here (loaded or computed).
  std::vector<OpId> reductions;  ///< Their operands are tile values of this stage.
  std::vector<OpId> outer;       ///< Outer reductions that take elements of this stage.
  std::vector<size_t> outputs;   ///< Indices of outputs stored per element here.
  /// Per-row gathers, and row values computed from them, that depend on no reduction and are first
  /// used after this stage's reduction. Their loads are issued before the reduction's exchange to
  /// overlap with it (before the second exchange of a two-pass reduction). In topological order.
  std::vector<ValueId> gathered;
  std::vector<ValueId>
      row_values;            ///< Evaluated once per row after the reductions, in topological order.
  std::vector<OpId> totals;  ///< Outer reductions of one of those, or of a reduction's result.
  double issue_slots = 0.0;  ///< Instructions per element: casts, arithmetic, accumulation.
  /// Multiplications among them that take no instruction of their own, because they fuse into a
  /// multiply-add.
  int64_t fused_products = 0;
  double special_functions = 0.0;
  int64_t live_values = 0;  ///< Peak of computed values alive at once in one element's evaluation.
  friend bool operator==(const Stage&, const Stage&) = default;
};

struct StageList {
  /// Row values that depend on no reduction, evaluated first; without Stage::gathered.
  std::vector<ValueId> row_values;
  std::vector<OpId> totals;  ///< Outer reductions of one of those.
  std::vector<Stage> stages;
  /// Two-pass schedules: row values that the last stage reads from earlier stages, for all rows of
  /// a tile; ascending.
  std::vector<ValueId> tile_row_values;
  friend bool operator==(const StageList&, const StageList&) = default;
};

/// Distributes the segment's work over its stages if the values in `kept` with residency register
/// or shared are kept. The estimates and the lowering both follow this list.
StageList distribute(const SegmentFacts& facts, const std::vector<KeptValue>& kept);

/// Distributes the segment's work over the two passes of a schedule that keeps no elements
/// (Schedule::rows_per_tile). All stages but the last are the first pass: they reduce the rows of a
/// tile, one row after the other, and compute the row values. The last stage is the second pass
/// over the elements of these rows: it has every outer reduction and every output of elements. If
/// only totals need elements, they are accumulated in the first pass.
StageList distribute_two_pass(const SegmentFacts& facts);

/// For every value kept in registers or shared memory, whether a stage after the one that makes it
/// available reads it. A value that later stages compute again from other kept values is not
/// needed. A value that all rows share is needed by the rows that follow, if blocks walk over rows.
std::vector<bool> needed_later(const SegmentFacts& facts, const std::vector<KeptValue>& kept);

}  // namespace sinter
