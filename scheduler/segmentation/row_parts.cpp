#include "scheduler/segmentation/row_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/operand_walk.h"
#include "scheduler/analysis/partial_results.h"
#include "scheduler/cost/row_estimate.h"
#include "scheduler/families/matmul.h"
#include "scheduler/families/row_rules.h"

namespace sinter {
namespace {

/// Elements per part: a block reads a shorter row before the next kernel could start.
constexpr int64_t kShortestPart = 1024;
/// Rows per part in reductions over rows, and the columns that a block of few threads takes.
constexpr int64_t kFewestRows = 64;
constexpr int64_t kColumnsOfBlock = 64;
/// Parts per SM: enough to fill it, and enough to balance the last wave.
constexpr std::array<int64_t, 3> kPartsPerSm = {2, 8, 32};
/// Bytes of a part that 1024 threads read at once, two 16-byte vectors each. Source:
/// docs/experiments/constants_choices.md.
constexpr double kBytesOfBatch = 32768.0;

int64_t size_of(const Extent& extent) { return extent.constant(); }

/// Builds a graph from parts of the segment's.
class PartsBuilder {
 public:
  PartsBuilder(const SegmentFacts& facts, std::string_view suffix)
      : source_(facts.fusion), builder_(fmt::format("{}_{}", facts.fusion.name, suffix)) {}

  FusionBuilder& builder() { return builder_; }

  /// Maps `value` of the segment's graph to `made`.
  void define(ValueId value, ValueId made) { copies_[value] = made; }

  /// The same computation of the same inputs.
  ValueId copy(ValueId value) {
    walk_operands(
        source_, value, [&](ValueId needed) { return !copies_.contains(needed); },
        [&](ValueId needed) { copy_one(needed); });
    return copies_.at(value);
  }

  /// An input that holds partial results of a value.
  ValueId read(ValueId value, DType type, Shape shape) {
    const ValueId made = builder_.input(type, shape, name_of(value) + "_parts");
    in_plan_[made] = value;
    return made;
  }

  void write(ValueId made, ValueId value, OutputLayout layout = {}) {
    layout.alias = {};  // Rows that are overwritten are not reduced in parts.
    builder_.output(made, "", layout);
    in_plan_[made] = value;
  }

  Subgraph take() { return {.fusion = builder_.build(), .in_plan = std::move(in_plan_)}; }

 private:
  /// Copies a value whose operands are copied.
  void copy_one(ValueId value) {
    const Op& op = source_.def_of(value);
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(copies_.at(operand));
    std::vector<std::string> names;
    for (const ValueId result : op.results) names.push_back(source_.values[result].name);
    const Value& like = source_.values[op.results.front()];
    const std::vector<ValueId> made =
        builder_.append(op.kind, std::move(operands), like.type, like.shape, std::move(names));
    for (size_t i = 0; i < made.size(); ++i) copies_[op.results[i]] = made[i];
    if (std::holds_alternative<InputOp>(op.kind)) in_plan_[made.front()] = value;
  }

  [[nodiscard]] std::string name_of(ValueId value) const {
    const std::string& name = source_.values[value].name;
    return name.empty() ? fmt::format("v{}", value.index) : name;
  }

  const Fusion& source_;
  FusionBuilder builder_;
  std::map<ValueId, ValueId> copies_;
  std::map<ValueId, ValueId> in_plan_;
};

/// Axes of the first operand that the op removes: a reduction, or a take of one element.
std::vector<int> removed_axes(const Op& op) {
  if (const auto* take = std::get_if<TakeOp>(&op.kind)) return {take->axis};
  return reduced_axes(op.kind);
}

/// Its other axes.
std::vector<int> kept_axes(const Fusion& fusion, const Op& op) {
  const std::vector<int> reduced = removed_axes(op);
  std::vector<int> kept;
  for (int axis = 0; axis < std::ssize(fusion.values[op.operands[0]].shape); ++axis) {
    if (std::ranges::find(reduced, axis) == reduced.end()) kept.push_back(axis);
  }
  return kept;
}

/// Number of operand elements per result.
int64_t reduced_elements(const Fusion& fusion, const Op& op) {
  int64_t elements = 1;
  for (const int axis : removed_axes(op))
    elements *= size_of(fusion.values[op.operands[0]].shape[static_cast<size_t>(axis)]);
  return elements;
}

/// Numbers in which the reduced axes split evenly: all of the first axes, times a divisor of the
/// next. For an axis longer than 2^32, only the divisors up to 2^16 and their complements: finding
/// the others takes too long.
std::set<int64_t> divisors(const Fusion& fusion, const Op& op) {
  constexpr int64_t kMostTried = int64_t{1} << 16;
  std::set<int64_t> out;
  int64_t before = 1;
  for (const int axis : reduced_axes(op.kind)) {
    const int64_t size = size_of(fusion.values[op.operands[0]].shape[static_cast<size_t>(axis)]);
    for (int64_t divisor = 1; divisor <= kMostTried && divisor * divisor <= size; ++divisor) {
      if (size % divisor != 0) continue;
      out.insert(before * divisor);
      out.insert(before * (size / divisor));
    }
    before *= size;
  }
  return out;
}

/// True for outputs of all elements of a contraction's rows, which the kernel of the parts stores:
/// another one would have to read the result of the contraction.
bool is_stored_by_parts(const SegmentFacts& facts, ValueId output) {
  return facts.space.contraction && facts.is_tile(output) && facts.level[output] == 0;
}

class Splitting {
 public:
  Splitting(const SegmentFacts& facts, int64_t parts)
      : facts_(facts),
        parts_(parts),
        parts_lead_(facts.has_outer()),
        first_(facts, "parts"),
        second_(facts, "finish") {}

  std::optional<RowParts> run() {
    // Partial results may be listed under a value that is stored too.
    for (const ValueId output : facts_.fusion.outputs) {
      if (is_stored_by_parts(facts_, output)) names_.insert(output);
    }
    for (const OpId id : facts_.fusion.op_ids()) {
      const Op& op = facts_.fusion.ops[id];
      const bool is_take = std::holds_alternative<TakeOp>(op.kind);
      if (!is_take && !is_reduction(op.kind)) continue;
      const bool is_split = is_take ? split_take(op) : split(op);
      if (!is_split || !has_types_of(op)) return std::nullopt;
    }
    for (const ValueId output : facts_.fusion.outputs) {
      PartsBuilder& writer = is_stored_by_parts(facts_, output) ? first_ : second_;
      writer.write(writer.copy(output), output, facts_.fusion.layout_of(output));
    }
    out_.parts = first_.take();
    out_.finish = second_.take();
    return std::move(out_);
  }

 private:
  /// The operand of an op, `made` in the first graph, as [kept axes, parts, elements of a part],
  /// or, for reductions over rows, [parts, elements of a part, kept axes]: in either order, partial
  /// results are contiguous.
  ValueId in_parts(const Op& op, ValueId made) {
    const std::vector<int> kept = kept_axes(facts_.fusion, op);
    const std::vector<int> reduced = removed_axes(op);
    const Shape& kept_shape = facts_.fusion.values[op.results.front()].shape;
    const Shape of_parts = {Extent(parts_), Extent(reduced_elements(facts_.fusion, op) / parts_)};
    const auto joined = [&](const auto& first, const auto& second) {
      auto all = first;
      all.insert(all.end(), second.begin(), second.end());
      return all;
    };
    const std::vector<int> order = parts_lead_ ? joined(reduced, kept) : joined(kept, reduced);
    FusionBuilder& b = first_.builder();
    if (!std::ranges::is_sorted(order)) made = b.permute(made, order);
    return b.reshape(made,
                     parts_lead_ ? joined(of_parts, kept_shape) : joined(kept_shape, of_parts));
  }

  /// Passes `made`, of the first graph, to the second by the name of `value`.
  std::optional<ValueId> pass(ValueId made, ValueId value) {
    if (!names_.insert(value).second) return std::nullopt;
    const Value& info = first_.builder().fusion().values[made];
    first_.write(made, value);
    out_.passed.push_back({value, element_count(info.shape) * bytes_of(info.type)});
    return second_.read(value, info.type, info.shape);
  }

  /// pass() with the axis of the parts last: the part that has the extreme is found along rows,
  /// from which an element can be gathered.
  std::optional<ValueId> pass_searched(ValueId made, ValueId value) {
    FusionBuilder& a = first_.builder();
    const auto axes = static_cast<int>(a.fusion().values[made].shape.size());
    if (!parts_lead_ || axes == 1) return pass(made, value);
    std::vector<int> order;
    for (int axis = 1; axis < axes; ++axis) order.push_back(axis);
    order.push_back(0);
    return pass(a.permute(made, order), value);
  }

  /// True if the second graph gets values of the same types as the whole reduction gives.
  bool has_types_of(const Op& op) {
    return std::ranges::all_of(op.results, [&](ValueId result) {
      return second_.builder().fusion().values[second_.copy(result)].type ==
             facts_.fusion.values[result].type;
    });
  }

  bool split(const Op& op) {
    const int64_t elements = reduced_elements(facts_.fusion, op);
    if (elements == 0 || elements % parts_ != 0) return false;
    const auto kept = static_cast<int>(facts_.fusion.values[op.results.front()].shape.size());
    const int inner = parts_lead_ ? 1 : kept + 1;
    const bool is_index = is_index_reduction(op.kind);
    const std::vector<ValueId> made =
        reduce_part(first_.builder(), op.kind, in_parts(op, first_.copy(op.operands[0])), inner);
    std::vector<ValueId> read;
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId name = i < op.results.size() ? op.results[i] : op.operands[0];
      const auto passed = is_index ? pass_searched(made[i], name) : pass(made[i], name);
      if (!passed) return false;
      read.push_back(*passed);
    }
    const std::vector<ValueId> whole = combine_parts(
        second_.builder(), op.kind, read, is_index || !parts_lead_ ? kept : 0, elements / parts_);
    for (size_t i = 0; i < whole.size(); ++i) second_.define(op.results[i], whole[i]);
    return true;
  }

  /// An element that a row picks, as the maximum of taken_elements().
  bool split_take(const Op& op) {
    const int64_t elements = reduced_elements(facts_.fusion, op);
    if (elements == 0 || elements % parts_ != 0) return false;
    FusionBuilder& a = first_.builder();
    const ValueId taken = taken_elements(a, first_.copy(op.operands[0]),
                                         first_.copy(op.operands[1]), removed_axes(op).front());
    const auto kept = static_cast<int>(facts_.fusion.values[op.results[0]].shape.size());
    const ValueId partial = a.amax(in_parts(op, taken), {kept + 1});
    const auto passed = pass(partial, op.results[0]);
    if (!passed) return false;
    FusionBuilder& b = second_.builder();
    const DType result = facts_.fusion.values[op.results[0]].type;
    const ValueId index = second_.copy(op.operands[1]);
    second_.define(op.results[0],
                   taken_of_maximum(b, b.amax(*passed, {kept}), index, elements, result));
    return true;
  }

  const SegmentFacts& facts_;
  const int64_t parts_;
  const bool parts_lead_;  ///< The axis of the parts is the first one, not the last.
  PartsBuilder first_;
  PartsBuilder second_;
  RowParts out_;
  std::set<ValueId> names_;  ///< Values whose partial results are passed.
};

/// True if the segment gathers elements otherwise than by one index for each row of a contraction.
bool gathers(const SegmentFacts& facts) {
  return std::ranges::any_of(facts.fusion.ops, [&](const Op& op) {
    if (!std::holds_alternative<TakeOp>(op.kind)) return false;
    const ValueId result = op.results[0];
    return !facts.space.contraction || !facts.space.dependence[op.operands[0]].columns ||
           facts.space.dependence[result].columns ||
           facts.fusion.values[result].type == DType::kBool;
  });
}

/// True if no reduction takes elements that depend on another one, and no output has elements that
/// the second kernel would store. Reductions over the rows are split only if blocks cannot leave
/// partial results of them.
bool splits(const SegmentFacts& facts) {
  if (gathers(facts) || facts.last_stage > 0) return false;
  if (facts.has_outer()) {
    const bool follow = std::ranges::all_of(
        facts.fusion.outputs, [&](ValueId output) { return facts.is_after_rows(output); });
    const bool totals =
        std::ranges::any_of(facts.outer_reductions, [&](OpId id) { return facts.is_total(id); });
    return !facts.has_reduction() && follow && !totals &&
           check_outer_reductions(facts, "parts").has_value();
  }
  if (!facts.has_reduction()) return false;
  for (size_t i = 0; i < facts.fusion.outputs.size(); ++i) {
    if (facts.space.output_coverage[i].columns &&
        !is_stored_by_parts(facts, facts.fusion.outputs[i]))
      return false;
  }
  return true;
}

}  // namespace

std::optional<RowParts> rows_in_parts(const SegmentFacts& facts, int64_t parts) {
  if (parts < 2 || !splits(facts)) return std::nullopt;
  return Splitting(facts, parts).run();
}

PartRange wanted_parts(int64_t before, int64_t length, int64_t behind, const DeviceLimits& limits) {
  if (before * behind == 0) return {};
  const bool over_rows = behind > 1;
  const int64_t possible = length / (over_rows ? kFewestRows : kShortestPart);
  const int64_t apart = before * (over_rows ? (behind + kColumnsOfBlock - 1) / kColumnsOfBlock : 1);
  return {.fewest = std::min(kPartsPerSm.front() * limits.sm_count / apart, possible),
          .most = std::min(kPartsPerSm.back() * limits.sm_count / apart, possible)};
}

std::vector<int64_t> tile_parts(int64_t columns) {
  constexpr int64_t kNarrowest = 64;
  std::vector<int64_t> out;
  for (int64_t tile = kMostMatmulColumns; tile >= kNarrowest; tile /= 2) {
    // A row that is reduced has an even number of columns (refuse_matmul).
    int64_t width = tile;
    while (width > tile / 2 && columns % width != 0) width -= 2;
    if (width > tile / 2) out.push_back(columns / width);
  }
  return out;
}

std::vector<int64_t> part_counts(const SegmentFacts& facts, const DeviceLimits& limits) {
  if (facts.space.contraction) {
    if (!splits(facts) || facts.space.columns <= kMostMatmulColumns) return {};
    return tile_parts(facts.space.columns);
  }
  const bool over_rows = facts.has_outer();
  const int64_t length = over_rows ? facts.space.rows : facts.space.columns;
  const int64_t shortest = over_rows ? kFewestRows : kShortestPart;
  // Independent reductions: the rows, or the strips of columns that blocks take.
  const int64_t apart =
      over_rows ? (facts.space.columns + kColumnsOfBlock - 1) / kColumnsOfBlock : facts.space.rows;
  if (!splits(facts) || apart < 1 || length < 2 * shortest) return {};
  std::set<int64_t> possible;
  bool is_first = true;
  for (const Op& op : facts.fusion.ops) {
    if (!is_reduction(op.kind)) continue;
    const std::set<int64_t> of_op = divisors(facts.fusion, op);
    if (is_first) possible = of_op;
    std::erase_if(possible, [&](int64_t parts) {
      return !of_op.contains(parts) || parts < 2 || length / parts < shortest;
    });
    is_first = false;
  }
  std::set<int64_t> out;
  std::vector<double> wanted_counts;
  for (const int64_t per_sm : kPartsPerSm)
    wanted_counts.push_back(static_cast<double>(per_sm * limits.sm_count) /
                            static_cast<double>(apart));
  if (!over_rows) {
    wanted_counts.push_back(static_cast<double>(facts.bytes_read) /
                            (static_cast<double>(apart) * kBytesOfBatch));
  }
  for (const double wanted : wanted_counts) {
    if (wanted < 2.0) continue;
    const auto farther = [&](int64_t parts) {
      return std::abs(std::log(static_cast<double>(parts) / wanted));
    };
    std::optional<int64_t> nearest;
    std::optional<int64_t> nearest_whole;
    for (const int64_t parts : possible) {
      if (!nearest || farther(parts) < farther(*nearest)) nearest = parts;
      if (!over_rows && length / parts % kWholeVector != 0) continue;
      if (!nearest_whole || farther(parts) < farther(*nearest_whole)) nearest_whole = parts;
    }
    if (nearest) out.insert(*nearest);
    if (nearest_whole) out.insert(*nearest_whole);
  }
  return {out.begin(), out.end()};
}

}  // namespace sinter
