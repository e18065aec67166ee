#include "fusion_ir/passes/simplify_moves.h"

#include <algorithm>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/match.h"

namespace sinter {
namespace {

using Replacement = std::optional<ValueId>;

/// Where each axis of `from` went in `to`, if `to` is `from` with unit axes inserted.
std::optional<std::vector<int>> inserted_unit_axes(const Shape& from, const Shape& to) {
  std::vector<int> axes;
  size_t next = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (next < from.size() && to[axis] == from[next]) {
      axes.push_back(static_cast<int>(axis));
      ++next;
    } else if (!to[axis].is_one()) {
      return std::nullopt;
    }
  }
  if (next != from.size()) return std::nullopt;
  return axes;
}

Replacement simplify_broadcast(Rewriter& rewriter, const BroadcastOp& outer, ValueId operand,
                               const Shape& shape) {
  const Fusion& graph = rewriter.graph();
  std::vector<int> inner;
  if (graph.values[operand].shape == shape) return operand;
  if (const auto* broadcast = graph.def_as<BroadcastOp>(operand)) {
    inner = broadcast->axes;
  } else if (graph.def_as<ReshapeOp>(operand) != nullptr) {
    const ValueId source = graph.def_of(operand).operands.front();
    const auto axes = inserted_unit_axes(graph.values[source].shape, graph.values[operand].shape);
    if (!axes) return std::nullopt;
    inner = *axes;
  } else {
    return std::nullopt;
  }
  std::vector<int> axes;
  for (const int axis : inner) axes.push_back(outer.axes[static_cast<size_t>(axis)]);
  return rewriter.broadcast(graph.def_of(operand).operands.front(), shape, std::move(axes));
}

Replacement simplify_permute(Rewriter& rewriter, const PermuteOp& outer, ValueId operand) {
  const Fusion& graph = rewriter.graph();
  if (std::ranges::is_sorted(outer.order)) return operand;
  const auto* inner = graph.def_as<PermuteOp>(operand);
  if (inner == nullptr) return std::nullopt;
  const ValueId source = graph.def_of(operand).operands.front();
  std::vector<int> order;
  for (const int axis : outer.order) order.push_back(inner->order[static_cast<size_t>(axis)]);
  if (std::ranges::is_sorted(order)) return source;
  return rewriter.append(PermuteOp{std::move(order)}, {source}).front();
}

Replacement simplify_reshape(Rewriter& rewriter, ValueId operand, const Value& result) {
  const Fusion& graph = rewriter.graph();
  if (graph.values[operand].shape == result.shape) return operand;
  if (graph.def_as<ReshapeOp>(operand) == nullptr) return std::nullopt;
  const ValueId source = graph.def_of(operand).operands.front();
  if (graph.values[source].shape == result.shape) return source;
  return rewriter.append(ReshapeOp{}, {source}, result.type, result.shape).front();
}

bool takes_everything(const SliceOp& slice, const Shape& from, const Shape& to) {
  return from == to && std::ranges::all_of(slice.start, [](int64_t start) { return start == 0; }) &&
         std::ranges::all_of(slice.step, [](int64_t step) { return step == 1; });
}

Replacement simplify_slice(Rewriter& rewriter, const SliceOp& outer, ValueId operand,
                           const Shape& shape) {
  const Fusion& graph = rewriter.graph();
  if (takes_everything(outer, graph.values[operand].shape, shape)) return operand;
  const auto* inner = graph.def_as<SliceOp>(operand);
  if (inner == nullptr) return std::nullopt;
  const Shape& middle = graph.values[operand].shape;
  SliceOp both;
  for (size_t axis = 0; axis < middle.size(); ++axis) {
    const bool is_whole = outer.stop[axis] < 0 && middle[axis].is_symbol();
    const int64_t stop =
        outer.stop[axis] < 0 && !is_whole ? middle[axis].constant() : outer.stop[axis];
    const bool is_empty = !is_whole && stop <= outer.start[axis];
    // One past the last element that the outer slice can reach.
    const int64_t start = inner->start[axis] + outer.start[axis] * inner->step[axis];
    const int64_t end = inner->start[axis] + (stop - 1) * inner->step[axis] + 1;
    both.start.push_back(is_empty ? inner->start[axis] : start);
    both.stop.push_back(is_empty ? inner->start[axis] : (is_whole ? inner->stop[axis] : end));
    both.step.push_back(inner->step[axis] * outer.step[axis]);
  }
  return rewriter.append(std::move(both), {graph.def_of(operand).operands.front()}).front();
}

bool reduces_nothing(const Fusion& fusion, const Op& op) {
  const Shape& shape = fusion.values[op.operands.front()].shape;
  return std::ranges::all_of(reduced_axes(op.kind),
                             [&](int axis) { return shape[static_cast<size_t>(axis)].is_one(); });
}

/// What a reduction takes of its operand but for repetitions: axes of a broadcast along which
/// nothing varies are gone, or of one element.
struct Repeated {
  ValueId once;
  std::vector<int> axes;    ///< Of `once`, that are reduced.
  int64_t repetitions = 1;  ///< Of each element.
};

/// Nothing where the operand repeats no element along reduced axes of known extent.
std::optional<Repeated> repeated_operand(Rewriter& rewriter, const std::vector<int>& reduced,
                                         ValueId operand) {
  const Fusion& graph = rewriter.graph();
  const auto* broadcast = graph.def_as<BroadcastOp>(operand);
  if (broadcast == nullptr) return std::nullopt;
  const ValueId source = graph.def_of(operand).operands.front();
  const Shape& from = graph.values[source].shape;
  const Shape& to = graph.values[operand].shape;
  Repeated out;
  Shape shape;
  std::vector<int> source_axes(from.size());
  for (size_t axis = 0; axis < to.size(); ++axis) {
    const auto place = std::ranges::find(broadcast->axes, static_cast<int>(axis));
    const bool is_new = place == broadcast->axes.end();
    const auto of_source = static_cast<size_t>(place - broadcast->axes.begin());
    const bool is_reduced = std::ranges::find(reduced, static_cast<int>(axis)) != reduced.end();
    const bool repeats = is_new || from[of_source] != to[axis];
    if (is_reduced && repeats) {
      if (to[axis].is_symbol() || to[axis].constant() == 0) return std::nullopt;
      if (__builtin_mul_overflow(out.repetitions, to[axis].constant(), &out.repetitions))
        return std::nullopt;
    }
    if (is_new && is_reduced) continue;
    if (is_reduced) out.axes.push_back(static_cast<int>(shape.size()));
    if (!is_new) source_axes[of_source] = static_cast<int>(shape.size());
    shape.push_back(is_reduced && repeats ? Extent(1) : to[axis]);
  }
  if (shape == to) return std::nullopt;
  out.once = rewriter.broadcast(source, std::move(shape), std::move(source_axes));
  return out;
}

/// A reduction of repeated elements is one of each of them once: as often as they are repeated for
/// a sum, the same for an extreme.
Replacement simplify_repeated(Rewriter& rewriter, const ReduceOp& reduce, ValueId operand,
                              const Value& result) {
  const bool is_sum = reduce.fn == ReduceFn::kSum;
  const bool is_idempotent = reduce.fn == ReduceFn::kMax || reduce.fn == ReduceFn::kMin ||
                             reduce.fn == ReduceFn::kAny || reduce.fn == ReduceFn::kAll;
  if (!is_sum && !is_idempotent) return std::nullopt;
  if (rewriter.graph().values[operand].type != result.type) return std::nullopt;
  const auto repeated = repeated_operand(rewriter, reduce.axes, operand);
  if (!repeated) return std::nullopt;
  const ValueId once =
      repeated->axes.empty()
          ? repeated->once
          : rewriter.append(ReduceOp{reduce.fn, repeated->axes}, {repeated->once}).front();
  if (!is_sum || repeated->repetitions == 1) return once;
  const auto count = static_cast<double>(repeated->repetitions);
  const ConstantOp factor{.real = is_float(result.type) ? round_to(result.type, count) : 0.0,
                          .integer = is_float(result.type) ? 0 : repeated->repetitions};
  return rewriter.pointwise(PointwiseFn::kMul,
                            {once, rewriter.splat(factor, result.type, result.shape)});
}

/// A reduction over axes of one element moves that element. Where all reductions are such, they
/// stay: they say which axes are the columns.
Replacement simplify_reduction(Rewriter& rewriter, const ReduceOp& reduce, ValueId operand,
                               const Value& result) {
  if (is_index_reduction(reduce.fn)) return std::nullopt;
  if (auto once = simplify_repeated(rewriter, reduce, operand, result)) return once;
  const Fusion& graph = rewriter.graph();
  const Value& source = graph.values[operand];
  const bool alone = std::ranges::all_of(
      reduce.axes, [&](int axis) { return source.shape[static_cast<size_t>(axis)].is_one(); });
  if (!alone || source.type != result.type) return std::nullopt;
  const Fusion& all = rewriter.source();
  const bool others = std::ranges::any_of(
      all.ops, [&](const Op& op) { return is_reduction(op.kind) && !reduces_nothing(all, op); });
  if (!others) return std::nullopt;
  return rewriter.append(ReshapeOp{}, {operand}, result.type, result.shape).front();
}

}  // namespace

Replacement simplify_move(Rewriter& rewriter, const OpKind& kind, ValueId operand,
                          const Value& result) {
  if (const auto* broadcast = std::get_if<BroadcastOp>(&kind)) {
    return simplify_broadcast(rewriter, *broadcast, operand, result.shape);
  }
  if (const auto* permute = std::get_if<PermuteOp>(&kind)) {
    return simplify_permute(rewriter, *permute, operand);
  }
  if (const auto* reduce = std::get_if<ReduceOp>(&kind)) {
    return simplify_reduction(rewriter, *reduce, operand, result);
  }
  if (std::holds_alternative<ReshapeOp>(kind)) return simplify_reshape(rewriter, operand, result);
  if (std::holds_alternative<ConcatenateOp>(kind)) return operand;
  // Equal shapes: nothing is added on any side.
  if (std::holds_alternative<PadOp>(kind) &&
      rewriter.graph().values[operand].shape == result.shape) {
    return operand;
  }
  if (const auto* slice = std::get_if<SliceOp>(&kind)) {
    return simplify_slice(rewriter, *slice, operand, result.shape);
  }
  return std::nullopt;
}

}  // namespace sinter
