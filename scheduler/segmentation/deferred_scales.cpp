#include "scheduler/segmentation/deferred_scales.h"

#include <algorithm>
#include <vector>

#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

/// An operand of a contraction that is x times a scale of its rows.
struct Scaled {
  ValueId x;              ///< Takes the place of the operand.
  ValueId scale;          ///< Before it is broadcast.
  std::vector<int> axes;  ///< Of the contraction's result, one for each axis of the scale.
};

class ScaledOperands {
 public:
  explicit ScaledOperands(const Fusion& fusion) : fusion_(fusion), readers_(fusion.values.size()) {
    for (const Op& op : fusion.ops) {
      for (const ValueId operand : op.operands) ++readers_[operand];
    }
    for (const ValueId output : fusion.outputs) ++readers_[output];
  }

  /// The operand on a side of the contraction, 0 or 1, if it is scaled.
  [[nodiscard]] std::optional<Scaled> find(const Op& contraction, size_t side) const {
    const auto& contract = std::get<ContractOp>(contraction.kind);
    const ValueId operand = contraction.operands[side];
    if (contract.fn != ContractFn::kSum || readers_[operand] != 1) return std::nullopt;
    const DType narrow = fusion_.values[operand].type;
    ValueId product = operand;
    if (fusion_.def_as<CastOp>(operand) != nullptr) product = fusion_.def_of(operand).operands[0];
    const bool is_cast = product != operand;
    const DType type = fusion_.values[product].type;
    const auto* multiply = fusion_.def_as<PointwiseOp>(product);
    if (multiply == nullptr || multiply->fn != PointwiseFn::kMul || readers_[product] != 1 ||
        type != fusion_.values[contraction.results.front()].type)
      return std::nullopt;
    const std::vector<ValueId>& factors = fusion_.def_of(product).operands;
    for (const size_t which : {size_t{0}, size_t{1}}) {
      Scaled out{.x = factors[1 - which], .scale = {}, .axes = {}};
      const ValueId repeated = factors[which];
      const auto* broadcast = fusion_.def_as<BroadcastOp>(repeated);
      if (broadcast == nullptr || out.x == repeated) continue;
      out.scale = fusion_.def_of(repeated).operands[0];
      const std::vector<int>& places = side == 0 ? contract.left : contract.right;
      for (const int axis : broadcast->axes) out.axes.push_back(places[static_cast<size_t>(axis)]);
      const bool sums_over = std::ranges::any_of(out.axes, [&](int axis) {
        return std::ranges::find(contract.reduced, axis) != contract.reduced.end();
      });
      if (sums_over || !std::ranges::is_sorted(out.axes) || !fills(repeated, *broadcast)) continue;
      if (is_cast) {
        // Unscaled numbers are not rounded to the narrower type: x has to come from it.
        if (fusion_.def_as<CastOp>(out.x) == nullptr) continue;
        out.x = fusion_.def_of(out.x).operands[0];
      }
      if (fusion_.values[out.x].type == narrow) return out;
    }
    return std::nullopt;
  }

 private:
  /// True if no axis of extent 1 expands.
  [[nodiscard]] bool fills(ValueId repeated, const BroadcastOp& broadcast) const {
    const Shape& from = fusion_.values[fusion_.def_of(repeated).operands[0]].shape;
    const Shape& to = fusion_.values[repeated].shape;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != to[static_cast<size_t>(broadcast.axes[i])]) return false;
    }
    return true;
  }

  const Fusion& fusion_;
  IdMap<ValueId, int> readers_;  ///< Ops and outputs.
};

}  // namespace

std::optional<Fusion> with_deferred_scales(const Fusion& fusion) {
  const ScaledOperands operands_of(fusion);
  bool is_new = false;
  auto out = rewrite(fusion,
                     [&](Rewriter& rewriter, OpId id,
                         std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                       const Op& op = fusion.ops[id];
                       if (!std::holds_alternative<ContractOp>(op.kind)) return std::nullopt;
                       std::vector<ValueId> unscaled(operands.begin(), operands.end());
                       std::vector<Scaled> scales;
                       for (const size_t side : {size_t{0}, size_t{1}}) {
                         auto scaled = operands_of.find(op, side);
                         if (!scaled) continue;
                         unscaled[side] = rewriter.mapped(scaled->x);
                         scales.push_back(std::move(*scaled));
                       }
                       if (scales.empty()) return std::nullopt;
                       is_new = true;
                       ValueId y = rewriter.append(op.kind, std::move(unscaled)).front();
                       for (const Scaled& scaled : scales) {
                         const Shape shape = rewriter.graph().values[y].shape;
                         const ValueId scale = rewriter.mapped(scaled.scale);
                         y = rewriter.pointwise(PointwiseFn::kMul,
                                                {y, rewriter.broadcast(scale, shape, scaled.axes)});
                       }
                       return {{y}};
                     });
  return is_new ? std::move(out) : std::nullopt;
}

}  // namespace sinter
