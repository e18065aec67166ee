#include "scheduler/segmentation/uneven_parts.h"

#include <algorithm>
#include <bitset>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <span>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/reduction_traits.h"
#include "scheduler/analysis/partial_results.h"
#include "scheduler/families/matmul.h"
#include "scheduler/segmentation/row_parts.h"

namespace sinter {
namespace {

bool divides(int64_t length, const PartRange& wanted) {
  for (int64_t parts = wanted.fewest; parts <= wanted.most; ++parts) {
    if (length % parts == 0) return true;
  }
  return false;
}

/// For every value, the axes along which its elements are columns of a contraction, or computed
/// from them one by one.
class ContractedColumns {
 public:
  explicit ContractedColumns(const Fusion& fusion) : axes_(fusion.values.size()) {
    for (const Op& op : fusion.ops) {
      AxisSet axes;
      if (const auto* contract = std::get_if<ContractOp>(&op.kind)) {
        for (const int axis : contract->left) axes.flip(static_cast<size_t>(axis));
        for (const int axis : contract->right) axes.flip(static_cast<size_t>(axis));
      } else if (std::holds_alternative<PointwiseOp>(op.kind) ||
                 std::holds_alternative<CastOp>(op.kind)) {
        for (const ValueId operand : op.operands) axes |= axes_[operand];
      }
      for (const ValueId result : op.results) axes_[result] = axes;
    }
  }
  [[nodiscard]] bool has(ValueId value, int axis) const {
    return axes_[value][static_cast<size_t>(axis)];
  }

 private:
  using AxisSet = std::bitset<kMaxRank>;
  IdMap<ValueId, AxisSet> axes_;
};

/// Rows of a contraction of which no tiles have equal parts: tiles of all columns, and a rest.
std::optional<UnevenAxis> uneven_columns(const Fusion& fusion, const ContractedColumns& columns,
                                         OpId id, int axis) {
  const Op& op = fusion.ops[id];
  if (!columns.has(op.operands[0], axis)) return std::nullopt;
  const int64_t length = fusion.values[op.operands[0]].shape[static_cast<size_t>(axis)].constant();
  constexpr int64_t kMostOfCluster = kMostClusterBlocks * kMostMatmulColumns;
  if (length <= kMostMatmulColumns || (length % 2 == 0 && length <= kMostOfCluster) ||
      !tile_parts(length).empty() || fusion.values[op.results[0]].type == DType::kBool)
    return std::nullopt;
  return UnevenAxis{.reduction = id,
                    .axis = axis,
                    .length = length,
                    .parts = length / kMostMatmulColumns,
                    .part_length = kMostMatmulColumns,
                    .of_contraction = true};
}

std::optional<UnevenAxis> uneven_axis(const Fusion& fusion, const ContractedColumns& columns,
                                      OpId id, const DeviceLimits& limits) {
  const Op& op = fusion.ops[id];
  if (const auto* take = std::get_if<TakeOp>(&op.kind))
    return uneven_columns(fusion, columns, id, take->axis);
  if (!is_reduction(op.kind) || reduced_axes(op.kind).size() != 1) return std::nullopt;
  const int axis = reduced_axes(op.kind).front();
  if (auto found = uneven_columns(fusion, columns, id, axis)) return found;
  const Sizes sizes = Binding{}.sizes_of(fusion.values[op.operands[0]].shape);
  const auto at = std::span(sizes).subspan(static_cast<size_t>(axis));
  const int64_t behind = element_count(Sizes(at.begin() + 1, at.end()));
  const int64_t before = element_count(Sizes(sizes.begin(), sizes.begin() + axis));
  UnevenAxis out{.reduction = id, .axis = axis, .length = at.front()};
  const PartRange wanted = wanted_parts(before, out.length, behind, limits);
  if (wanted.fewest < 2 || divides(out.length, wanted)) return std::nullopt;
  // The remainder is shorter than one vector per part, so fewer parts leave less of it.
  out.parts = wanted.fewest;
  out.part_length = out.length / out.parts / kWholeVector * kWholeVector;
  return out;
}

/// Elements `from` to `to` of an axis.
ValueId part_of(FusionBuilder& b, ValueId x, int axis, int64_t from, int64_t to) {
  const size_t rank = b.fusion().values[x].shape.size();
  std::vector<int64_t> start(rank, 0);
  std::vector<int64_t> stop(rank, -1);  // Whole axes stay what they are, Extent::bound() too.
  start[static_cast<size_t>(axis)] = from;
  stop[static_cast<size_t>(axis)] = to;
  return b.slice(x, std::move(start), std::move(stop));
}

/// Copies what makes columns `from` to `to` of a contraction and of what is computed from it
/// element by element, so that each range is a contraction of its own.
class ColumnRange {
 public:
  /// The arguments must outlive the object. `made`: what has been made of the source's values.
  ColumnRange(const Fusion& source, FusionBuilder& builder, const IdMap<ValueId, ValueId>& made,
              int64_t from, int64_t to)
      : source_(source), builder_(builder), made_(made), from_(from), to_(to) {}

  ValueId of(ValueId value, int axis) {
    axes_[value] = axis;
    // What is needed, from the last op to the first, then made in order.
    std::vector<OpId> needed;
    for (uint32_t i = source_.values[value].def.index + 1; i-- > 0;) {
      const Op& op = source_.ops[OpId{i}];
      if (!axes_.contains(op.results.front()) || !is_copied(op)) continue;
      needed.push_back(OpId{i});
      ask(op, axes_.at(op.results.front()));
    }
    for (const OpId id : needed | std::views::reverse) {
      const Op& op = source_.ops[id];
      copies_[op.results.front()] = copy(op, axes_.at(op.results.front()));
    }
    return part(value);
  }

 private:
  static bool is_copied(const Op& op) {
    return std::holds_alternative<PointwiseOp>(op.kind) ||
           std::holds_alternative<CastOp>(op.kind) ||
           std::holds_alternative<BroadcastOp>(op.kind) ||
           std::holds_alternative<ContractOp>(op.kind) || std::holds_alternative<IotaOp>(op.kind);
  }

  /// The axis of an operand along which it is needed in part, or -1: all of it is.
  [[nodiscard]] int axis_of_operand(const Op& op, size_t number, int axis) const {
    const auto find = [&](const std::vector<int>& places) {
      const auto at = std::ranges::find(places, axis);
      return at == places.end() ? -1 : static_cast<int>(at - places.begin());
    };
    if (const auto* contract = std::get_if<ContractOp>(&op.kind))
      return find(number == 0 ? contract->left : contract->right);
    const Shape& shape = source_.values[op.operands[number]].shape;
    if (shape.empty()) return -1;
    if (const auto* broadcast = std::get_if<BroadcastOp>(&op.kind)) {
      const int at = find(broadcast->axes);
      return at >= 0 && !shape[static_cast<size_t>(at)].is_one() ? at : -1;
    }
    return axis;
  }

  void ask(const Op& op, int axis) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (const int of_operand = axis_of_operand(op, i, axis); of_operand >= 0)
        axes_.try_emplace(op.operands[i], of_operand);
    }
  }

  /// The part of a value, which is copied or sliced.
  ValueId part(ValueId value) {
    const auto copied = copies_.find(value);
    if (copied != copies_.end()) return copied->second;
    return copies_[value] = part_of(builder_, made_[value], axes_.at(value), from_, to_);
  }

  ValueId copy(const Op& op, int axis) {
    Shape shape = source_.values[op.results.front()].shape;
    shape[static_cast<size_t>(axis)] = to_ - from_;
    if (const auto* iota = std::get_if<IotaOp>(&op.kind)) {
      const DType type = source_.values[op.results.front()].type;
      const ValueId count = builder_.iota(shape, iota->axis, type);
      if (iota->axis != axis || from_ == 0) return count;
      return builder_.add(count, is_float(type)
                                     ? builder_.constant(static_cast<double>(from_), type)
                                     : builder_.constant_integer(from_, type));
    }
    std::vector<ValueId> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const int of_operand = axis_of_operand(op, i, axis);
      const ValueId operand = op.operands[i];
      // A value that is needed along two axes is cut along the other one apart.
      if (of_operand >= 0 && axes_.at(operand) != of_operand) {
        operands.push_back(part_of(builder_, made_[operand], of_operand, from_, to_));
      } else {
        operands.push_back(of_operand >= 0 ? part(operand) : made_[operand]);
      }
    }
    return builder_
        .append(op.kind, std::move(operands), source_.values[op.results.front()].type, shape)
        .front();
  }

  const Fusion& source_;
  FusionBuilder& builder_;
  const IdMap<ValueId, ValueId>& made_;
  const int64_t from_, to_;
  std::map<ValueId, int> axes_;  ///< Along which a value is needed in part.
  std::map<ValueId, ValueId> copies_;
};

/// Moves the axis of the parts to the end, along which elements can be gathered.
ValueId with_parts_last(FusionBuilder& b, ValueId x, int axis) {
  std::vector<int> order;
  for (int i = 0; i < std::ssize(b.fusion().values[x].shape); ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  return std::ranges::is_sorted(order) ? x : b.permute(x, std::move(order));
}

/// The results of the reduction over the parts of its operand, of which `part(from, to)` gives
/// some elements along the axis.
std::vector<ValueId> in_parts(FusionBuilder& b, const OpKind& kind,
                              const std::function<ValueId(int64_t, int64_t)>& part,
                              const UnevenAxis& uneven) {
  const int axis = uneven.axis;
  const int64_t even = uneven.parts * uneven.part_length;
  const ValueId first = part(0, even);
  Shape in_even_parts = b.fusion().values[first].shape;
  in_even_parts[static_cast<size_t>(axis)] = uneven.part_length;
  in_even_parts.insert(in_even_parts.begin() + axis, Extent(uneven.parts));
  std::vector<ValueId> partials = reduce_part(b, kind, b.reshape(first, in_even_parts), axis + 1);
  const std::vector<ValueId> rest = reduce_part(b, kind, part(even, uneven.length), axis);
  if (traits_of(kind).tuple == TupleKind::kMoments) {
    const std::vector<ValueId> all = combine_parts(b, kind, partials, axis, uneven.part_length);
    const Moments merged =
        merge_moments(b, {.mean = all[0], .m2 = all[1], .elements = even},
                      {.mean = rest[0], .m2 = rest[1], .elements = uneven.length - even});
    return {merged.mean, merged.m2};
  }
  for (size_t i = 0; i < partials.size(); ++i) {
    Shape one_part = b.fusion().values[rest[i]].shape;
    one_part.insert(one_part.begin() + axis, Extent(1));
    partials[i] = b.concatenate({partials[i], b.reshape(rest[i], one_part)}, axis);
  }
  if (!is_index_reduction(kind)) return combine_parts(b, kind, partials, axis, uneven.part_length);
  for (ValueId& partial : partials) partial = with_parts_last(b, partial, axis);
  const auto last = static_cast<int>(b.fusion().values[partials[0]].shape.size()) - 1;
  return combine_parts(b, kind, partials, last, uneven.part_length);
}

}  // namespace

std::vector<UnevenAxis> find_uneven_axes(const Fusion& fusion, const DeviceLimits& limits) {
  std::vector<UnevenAxis> out;
  const ContractedColumns columns(fusion);
  for (const OpId id : fusion.op_ids()) {
    if (const auto axis = uneven_axis(fusion, columns, id, limits)) out.push_back(*axis);
  }
  return out;
}

Fusion with_axes_in_parts(const Fusion& fusion, const std::vector<UnevenAxis>& axes) {
  if (axes.empty()) return fusion;
  FusionBuilder b(fusion.name);
  IdMap<ValueId, ValueId> made(fusion.values.size());
  for (const OpId id : fusion.op_ids()) {
    const Op& op = fusion.ops[id];
    const auto found = std::ranges::find(axes, id, &UnevenAxis::reduction);
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(made[operand]);
    std::vector<ValueId> results;
    if (found != axes.end()) {
      const bool is_take = std::holds_alternative<TakeOp>(op.kind);
      const auto part = [&](int64_t from, int64_t to) {
        ValueId x = found->of_contraction
                        ? ColumnRange(fusion, b, made, from, to).of(op.operands[0], found->axis)
                        : part_of(b, operands[0], found->axis, from, to);
        if (is_take) x = taken_elements(b, x, operands[1], found->axis, from);
        return x;
      };
      const OpKind maximum = ReduceOp{.fn = ReduceFn::kMax, .axes = {found->axis}};
      results = in_parts(b, is_take ? maximum : op.kind, part, *found);
      if (is_take)
        results.front() = taken_of_maximum(b, results.front(), operands[1], found->length,
                                           fusion.values[op.results.front()].type);
      for (size_t i = 0; i < results.size(); ++i)
        results[i] = b.named(results[i], fusion.values[op.results[i]].name);
    } else {
      const Value& like = fusion.values[op.results.front()];
      std::vector<std::string> names;
      for (const ValueId result : op.results) names.push_back(fusion.values[result].name);
      results = b.append(op.kind, std::move(operands), like.type, like.shape, std::move(names));
    }
    for (size_t i = 0; i < results.size(); ++i) made[op.results[i]] = results[i];
  }
  for (const ValueId output : fusion.outputs) {
    OutputLayout layout = fusion.layout_of(output);
    if (layout.alias.valid()) layout.alias = made[layout.alias];
    b.output(made[output], "", std::move(layout));
  }
  return b.build();
}

}  // namespace sinter
