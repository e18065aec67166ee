#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/iteration_space.h"
#include "scheduler/schedule.h"

namespace sinter {

struct TensorList;  // scheduler/tensor_list.h

/// An output that takes over the memory of an input.
struct InPlace {
  size_t output = 0;  ///< Among the fusion's.
  ValueId input;
  friend bool operator==(const InPlace&, const InPlace&) = default;
};

/// What the scheduler knows about one segment before it looks at a device: computed once, shared by
/// all families.
struct SegmentFacts {
  Fusion fusion;  ///< Specialised: every extent is constant.
  IterationSpace space;
  /// The segment does the same to many tensors, found by analyse_list(). `space` then is one run of
  /// all their elements, without accesses; families that do not look here take no list.
  std::shared_ptr<const TensorList> list{};

  /// Outputs in the memory of inputs that the segment reads (scheduler/in_place.h).
  std::vector<InPlace> in_place{};

  /// How many inner reductions a value waits for. Stage s evaluates tile values of level s and
  /// reduces them; values of level s + 1 start from its results.
  IdMap<ValueId, int> level;
  int last_stage =
      0;  ///< Stages are 0 ... last_stage; there is a row barrier after every stage that reduces.

  int64_t bytes_read = 0;     ///< Every input once.
  int64_t bytes_written = 0;  ///< Every output once.

  /// Values to keep from one stage for later ones: the minimum cut, as far as it is read again
  /// otherwise. Empty when no value crosses a barrier.
  std::vector<ValueId> kept;
  int64_t kept_bytes_per_column = 0;  ///< Bytes the cut keeps for each element of a row.

  [[nodiscard]] bool has_reduction() const { return reduction_count > 0; }
  int64_t reduction_count = 0;  ///< Inner reductions.

  [[nodiscard]] bool has_outer() const { return !outer_reductions.empty(); }
  std::vector<OpId> outer_reductions;  ///< They accumulate over the rows, a tuple per column, or
                                       ///< one in all.
  [[nodiscard]] OuterReduction outer_kind(OpId reduction) const {
    return space.outer[fusion.ops[reduction].results.front()];
  }
  [[nodiscard]] bool is_total(OpId reduction) const {
    return outer_kind(reduction) != OuterReduction::kColumns;
  }
  [[nodiscard]] bool is_after_rows(ValueId value) const { return space.after_rows[value] != 0; }

  /// Varies along a row; not what is known only after all rows.
  [[nodiscard]] bool is_tile(ValueId value) const {
    return space.dependence[value].columns && !is_after_rows(value);
  }
  /// Varies along both rows and columns, or along all there is when nothing is kept.
  [[nodiscard]] bool is_full(ValueId value) const {
    return is_tile(value) && (space.dependence[value].rows || space.row_dimensions == 0);
  }
  [[nodiscard]] bool is_empty(ValueId value) const {
    return element_count(fusion.values[value].shape) == 0;
  }
  /// True for values read from memory rather than computed.
  [[nodiscard]] bool is_read(ValueId value) const { return space.find_input(value) != nullptr; }
  /// Largest / smallest element size in bytes among full tensors (inputs read along the columns,
  /// outputs covering them).
  int64_t widest_tile_bytes = 1;
  int64_t narrowest_tile_bytes = 8;
};

/// Bytes a kept element costs, in the trade of keeping against computing again: a 4-byte value
/// costs a shared-memory write and read of 8 bytes at 128 bytes per clock, in which an SM issues 8
/// instructions per element (4 warps of 32): half a byte per instruction.
inline constexpr double kBytesPerIssueSlot = 0.5;

/// Instructions for each element that an op computes: of pointwise functions and casts; reductions
/// and what only moves elements have none.
double issue_slots_of(const OpKind& kind);
/// Instructions of an op in a kernel's text, for each element: one at least.
double element_instructions(const OpKind& kind);

/// True for a value computed by a function with a hasty form, in the type it is computed in.
bool is_fast_path(const Fusion& fusion, ValueId value);

/// Analyses a specialised fusion. The failing side is what iteration_space() or find_in_place()
/// rejects.
tl::expected<SegmentFacts, Rejection> analyse(Fusion fusion);
/// The same but for the minimum cut, which takes most of the time: enough to tell whether families
/// take the segment, and what it takes at least.
tl::expected<SegmentFacts, Rejection> analyse_walk(Fusion fusion);

/// Tensors that a kernel has as arguments of its own at most: the rest of kMaxKernelArguments is
/// for sizes, partial results and counters.
inline constexpr int64_t kMostArgumentTensors = 112;

/// Why a kernel of the segment could not be launched: more tensors than it has arguments for.
/// Nothing: it has. Lists keep theirs in tables.
std::optional<Rejection> check_arguments(const SegmentFacts& facts);

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

/// The one of the two that the schedule asks for.
StageList stages_of(const SegmentFacts& facts, const Schedule& schedule);

/// For every persistent value kept in registers or shared memory, whether a stage after the one
/// that makes it available reads it. A value that later stages compute again from other kept values
/// is not needed; what all rows have in common is needed by the rows that follow, where blocks walk
/// rows.
std::vector<bool> needed_later(const SegmentFacts& facts, const std::vector<KeptValue>& kept);

}  // namespace sinter
