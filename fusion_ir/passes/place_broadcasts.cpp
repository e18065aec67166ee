#include "fusion_ir/passes/place_broadcasts.h"

#include <algorithm>

#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

/// A small shape inside a large one: small axis i is large axis axes[i].
struct Placement {
  Shape shape;
  std::vector<int> axes;
};

/// The smallest shape in which all operands can meet, or nothing if that is the shape they have.
std::optional<Placement> common_small_shape(const Fusion& graph, const Shape& large,
                                            std::span<const ValueId> operands) {
  std::vector<bool> present(large.size(), false);
  std::vector<bool> varies(large.size(), false);
  for (const ValueId operand : operands) {
    const auto* broadcast = graph.def_as<BroadcastOp>(operand);
    if (broadcast == nullptr) return std::nullopt;
    const Shape& from = graph.values[graph.def_of(operand).operands.front()].shape;
    for (size_t i = 0; i < from.size(); ++i) {
      const auto axis = static_cast<size_t>(broadcast->axes[i]);
      present[axis] = true;
      if (from[i] == large[axis]) varies[axis] = true;
    }
  }
  Placement small;
  for (size_t axis = 0; axis < large.size(); ++axis) {
    if (!present[axis]) continue;
    small.axes.push_back(static_cast<int>(axis));
    small.shape.push_back(varies[axis] ? large[axis] : Extent(1));
  }
  if (small.shape == large) return std::nullopt;
  return small;
}

/// What `operand`, a broadcast to the large shape, is in the small one.
ValueId shrink(Rewriter& rewriter, ValueId operand, const Placement& small) {
  const std::vector<int> axes = rewriter.graph().def_as<BroadcastOp>(operand)->axes;
  const ValueId source = rewriter.graph().def_of(operand).operands.front();
  std::vector<int> small_axes;
  for (const int axis : axes) {
    const auto place = std::ranges::find(small.axes, axis);
    small_axes.push_back(static_cast<int>(place - small.axes.begin()));
  }
  return rewriter.broadcast(source, small.shape, std::move(small_axes));
}

}  // namespace

std::optional<Fusion> place_broadcasts(const Fusion& fusion) {
  return rewrite(fusion,
                 [](Rewriter& rewriter, OpId id,
                    std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   const Op& op = rewriter.source().ops[id];
                   const auto* pointwise = std::get_if<PointwiseOp>(&op.kind);
                   if (pointwise == nullptr) return std::nullopt;
                   const Shape& large = rewriter.source().values[op.results.front()].shape;
                   const auto small = common_small_shape(rewriter.graph(), large, operands);
                   if (!small) return std::nullopt;
                   std::vector<ValueId> shrunk;
                   for (const ValueId operand : operands) {
                     shrunk.push_back(shrink(rewriter, operand, *small));
                   }
                   const ValueId value = rewriter.pointwise(pointwise->fn, std::move(shrunk));
                   return std::vector{rewriter.broadcast(value, large, small->axes)};
                 });
}

}  // namespace sinter
