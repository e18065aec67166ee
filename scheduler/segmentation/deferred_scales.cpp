#include "scheduler/segmentation/deferred_scales.h"

#include <algorithm>
#include <array>
#include <vector>

#include "fusion_ir/fusion_builder.h"

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
  FusionBuilder b(fusion.name);
  IdMap<ValueId, ValueId> made(fusion.values.size());
  bool is_new = false;
  for (const Op& op : fusion.ops) {
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(made[operand]);
    std::vector<Scaled> scales;
    if (std::holds_alternative<ContractOp>(op.kind)) {
      for (const size_t side : {size_t{0}, size_t{1}}) {
        auto scaled = operands_of.find(op, side);
        if (!scaled) continue;
        operands[side] = made[scaled->x];
        scales.push_back(std::move(*scaled));
      }
    }
    const Value& like = fusion.values[op.results.front()];
    std::vector<std::string> names;
    for (const ValueId result : op.results)
      names.push_back(scales.empty() ? fusion.values[result].name : "");
    std::vector<ValueId> results =
        b.append(op.kind, std::move(operands), like.type, like.shape, std::move(names));
    for (const Scaled& scaled : scales) {
      const ValueId scale = b.broadcast(made[scaled.scale], like.shape, scaled.axes);
      results.front() = b.mul(results.front(), scale);
    }
    if (!scales.empty()) results.front() = b.named(results.front(), like.name);
    is_new |= !scales.empty();
    for (size_t i = 0; i < op.results.size(); ++i) made[op.results[i]] = results[i];
  }
  if (!is_new) return std::nullopt;
  for (const ValueId output : fusion.outputs) {
    OutputLayout layout = fusion.layout_of(output);
    if (layout.alias.valid()) layout.alias = made[layout.alias];
    b.output(made[output], "", std::move(layout));
  }
  return b.build();
}

}  // namespace sinter
