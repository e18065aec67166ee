#include "scheduler/analysis/tensor_views.h"

#include <optional>
#include <span>
#include <variant>

#include "fusion_ir/match.h"

namespace sinter {
namespace {

/// The layout of a whole tensor as strides by class. `strides` are those of its axes, as for an
/// input or an output; empty if it is dense.
View whole_view(const LinkedAxes& linked, ValueId tensor, std::span<const Extent> strides) {
  View view{.tensor = tensor, .offset = 0, .strides = {}};
  const std::vector<AxisList>& axes = linked.axes[tensor];
  int64_t stride = 1;
  for (size_t axis = axes.size(); axis-- > 0;) {
    if (!strides.empty()) stride = strides[axis].constant();
    const AxisList resolved = linked.classes.resolve(axes[axis]);
    for (size_t i = resolved.size(); i-- > 0;) {
      view.strides[resolved[i]] = stride;
      stride *= linked.classes.size(resolved[i]);
    }
  }
  return view;
}

View view_of_input(const Fusion& fusion, const LinkedAxes& linked, ValueId input) {
  // Strides are meaningless for a tensor without elements, even as a sign that it repeats.
  const bool is_empty = is_always_empty(fusion.values[input].shape);
  const std::span<const Extent> strides = fusion.def_as<InputOp>(input)->strides;
  return whole_view(linked, input, is_empty ? std::span<const Extent>() : strides);
}

tl::expected<View, Rejection> view_of_slice(const LinkedAxes& linked, const Op& op,
                                            const View& from) {
  const AxisClasses& classes = linked.classes;
  const auto& slice = std::get<SliceOp>(op.kind);
  const ValueId result = op.results.front();
  View view{.tensor = from.tensor, .offset = from.offset, .strides = {}};
  for (size_t axis = 0; axis < slice.start.size(); ++axis) {
    const AxisList in = classes.resolve(linked.axes[op.operands[0]][axis]);
    const AxisList out = classes.resolve(linked.axes[result][axis]);
    if (in == out && slice.start[axis] == 0 && slice.step[axis] == 1) {
      for (const uint32_t node : in) view.strides[node] = from.stride_of(node);
      continue;
    }
    // The sliced axis must have a single stride, or the start has no single offset.
    const std::optional<int64_t> step = stride_along(from, in, classes);
    if (!step) {
      return tl::make_unexpected(reject_space("a slice cuts an axis that a reshape split", result,
                                              "slice before reshaping"));
    }
    view.offset += slice.start[axis] * *step;
    int64_t stride = *step * slice.step[axis];
    for (size_t i = out.size(); i-- > 0;) {
      view.strides[out[i]] = stride;
      stride *= classes.size(out[i]);
    }
  }
  return view;
}

}  // namespace

int64_t View::stride_of(uint32_t node) const {
  const auto found = strides.find(node);
  return found == strides.end() ? 0 : found->second;
}

std::optional<int64_t> stride_along(const View& view, const AxisList& axis,
                                    const AxisClasses& classes) {
  const int64_t stride = axis.empty() ? 0 : view.stride_of(axis.back());
  int64_t expected = stride;
  for (size_t i = axis.size(); i-- > 0;) {
    if (view.stride_of(axis[i]) != expected) return std::nullopt;
    expected *= classes.size(axis[i]);
  }
  return stride;
}

tl::expected<TensorViews, Rejection> find_views(const Fusion& fusion, const LinkedAxes& linked) {
  TensorViews views;
  for (const OpId id : fusion.op_ids()) {
    const Op& op = fusion.ops[id];
    const ValueId result = op.results.front();
    if (std::holds_alternative<InputOp>(op.kind)) {
      views[result] = view_of_input(fusion, linked, result);
      continue;
    }
    const bool moves = std::holds_alternative<PermuteOp>(op.kind) ||
                       std::holds_alternative<ReshapeOp>(op.kind) ||
                       std::holds_alternative<BroadcastOp>(op.kind);
    if (moves && views.contains(op.operands[0])) {
      views[result] = views.at(op.operands[0]);
      continue;
    }
    if (!std::holds_alternative<SliceOp>(op.kind)) continue;
    const auto found = views.find(op.operands[0]);
    if (found == views.end()) {
      return tl::make_unexpected(reject_space(
          "a slice takes part of a computed value", result,
          "slice the inputs it is computed from, or make the value an output of its own fusion"));
    }
    auto view = view_of_slice(linked, op, found->second);
    if (!view) return tl::make_unexpected(view.error());
    views[result] = *std::move(view);
  }
  return views;
}

View output_view(const Fusion& fusion, const LinkedAxes& linked, size_t index) {
  std::span<const Extent> strides;
  if (!fusion.layouts.empty()) strides = fusion.layouts[index].strides;
  return whole_view(linked, fusion.outputs[index], strides);
}

}  // namespace sinter
