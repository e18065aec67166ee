#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/iteration_space.h"

namespace sinter {

struct TensorList;  // scheduler/analysis/tensor_list.h

/// An output that overwrites an input.
struct InPlace {
  size_t output = 0;  ///< Index among the fusion's outputs.
  ValueId input;
  friend bool operator==(const InPlace&, const InPlace&) = default;
};

/// What the scheduler knows about a segment, independent of the device: computed once, shared by
/// all families.
struct SegmentFacts {
  Fusion fusion;  ///< Specialised: every extent is constant.
  IterationSpace space;
  /// Set if the segment does the same to many tensors (analyse_list()). `space` then is one
  /// contiguous range of all their elements, without accesses. Families that do not check this
  /// field take no lists.
  std::shared_ptr<const TensorList> list{};

  /// Outputs in the memory of inputs that the segment reads (scheduler/analysis/in_place.h).
  std::vector<InPlace> in_place{};

  /// Number of inner reductions that a value depends on, one after the other. Stage s evaluates
  /// tile values of level s and reduces them; values of level s + 1 start from its results.
  IdMap<ValueId, int> level;
  int last_stage =
      0;  ///< Stages are 0 ... last_stage; there is a row barrier after every stage that reduces.

  int64_t bytes_read = 0;     ///< Every input once.
  int64_t bytes_written = 0;  ///< Every output once.

  /// Values to keep from one stage for later ones: the minimum cut, without values that are read
  /// only once anyway. Empty if no value crosses a barrier.
  std::vector<ValueId> kept;
  int64_t kept_bytes_per_column = 0;  ///< Bytes the cut keeps for each element of a row.

  [[nodiscard]] bool has_reduction() const { return reduction_count > 0; }
  int64_t reduction_count = 0;  ///< Inner reductions.

  [[nodiscard]] bool has_outer() const { return !outer_reductions.empty(); }
  std::vector<OpId> outer_reductions;  ///< Over the rows: a tuple per column, or one in all.
  [[nodiscard]] OuterReduction outer_kind(OpId reduction) const {
    return space.outer[fusion.ops[reduction].results.front()];
  }
  [[nodiscard]] bool is_total(OpId reduction) const {
    return outer_kind(reduction) != OuterReduction::kColumns;
  }
  [[nodiscard]] bool is_after_rows(ValueId value) const { return space.after_rows[value] != 0; }

  /// Varies along a row, and is known before all rows are done.
  [[nodiscard]] bool is_tile(ValueId value) const {
    return space.dependence[value].columns && !is_after_rows(value);
  }
  /// Varies along both rows and columns, or along the columns if there are no row dimensions.
  [[nodiscard]] bool is_full(ValueId value) const {
    return is_tile(value) && (space.dependence[value].rows || space.row_dimensions == 0);
  }
  [[nodiscard]] bool is_empty(ValueId value) const {
    return element_count(fusion.values[value].shape) == 0;
  }
  /// True for the result of the contraction, which is computed before the rest of a tile.
  [[nodiscard]] bool is_contracted(ValueId value) const {
    return space.contraction && space.contraction->value == value;
  }
  /// True for values read from memory rather than computed.
  [[nodiscard]] bool is_read(ValueId value) const { return space.find_input(value) != nullptr; }
  /// True for an input that the segment reads, as a view of it or as an operand of its contraction.
  [[nodiscard]] bool reads_tensor(ValueId input) const;
  /// Largest / smallest element size in bytes among full tensors (inputs read along the columns,
  /// outputs covering them).
  int64_t widest_tile_bytes = 1;
  int64_t narrowest_tile_bytes = 8;
};

/// Bytes per instruction in the trade of keeping a value against recomputing it. A 4-byte value
/// costs a shared-memory write and read, 8 bytes at 128 bytes per clock. In that time an SM issues
/// 8 instructions per element (4 warps of 32 per clock): half a byte per instruction.
inline constexpr double kBytesPerIssueSlot = 0.5;

/// Instructions per element of an op: of pointwise functions and casts. 0 for reductions and ops
/// that only move elements.
double issue_slots_of(const OpKind& kind);
/// The same of the op that defines a value, whose operands may make it shorter.
double issue_slots_of(const Fusion& fusion, ValueId value);

/// Instructions of an op in a kernel's code, per element; at least one.
double element_instructions(const OpKind& kind);

/// True for a value computed by a function that has a fast path in its compute type.
bool is_fast_path(const Fusion& fusion, ValueId value);

/// Analyses a specialised fusion. The failing side is the rejection of iteration_space() or
/// find_in_place().
tl::expected<SegmentFacts, Rejection> analyse(Fusion fusion);

/// The same without the minimum cuts, which take most of the time: enough to tell whether families
/// accept the segment, and its lower bound of time.
tl::expected<SegmentFacts, Rejection> analyse_walk(Fusion fusion);
/// What analyse() finds of a segment, from what analyse_walk() found.
SegmentFacts find_kept_values(SegmentFacts walk);

/// Most tensors that a kernel takes as separate arguments. The rest of kMaxKernelArguments is for
/// sizes, partial results and counters.
inline constexpr int64_t kMostArgumentTensors = 112;
/// The rule that refuses a segment with more.
inline constexpr std::string_view kArgumentsRule = "a kernel has not so many arguments";

/// Rejects a segment whose kernel would have too many tensor arguments. Tensor lists are accepted:
/// they keep their addresses in tables.
std::optional<Rejection> check_arguments(const SegmentFacts& facts);

}  // namespace sinter
