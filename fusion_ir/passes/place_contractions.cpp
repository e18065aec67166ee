#include "fusion_ir/passes/place_contractions.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

bool has_axis(const std::vector<int>& axes, int axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

/// A contraction and its operands, of the graph that a rewriter makes.
class ContractionPlacement {
 public:
  ContractionPlacement(const Fusion& graph, ContractOp op, std::span<const ValueId> operands)
      : graph_(graph), op_(std::move(op)), operands_{operands[0], operands[1]} {}

  /// False if nothing can be moved into the contraction.
  bool run() {
    bool changed = false;
    while (move_permutation(0) || move_permutation(1) || move_broadcast(0) || move_broadcast(1) ||
           move_casts())
      changed = true;
    return changed;
  }

  [[nodiscard]] const ContractOp& op() const { return op_; }
  [[nodiscard]] std::vector<ValueId> operands() const { return {operands_[0], operands_[1]}; }

 private:
  std::vector<int>& axes(size_t side) { return side == 0 ? op_.left : op_.right; }
  ValueId source(size_t side) const { return graph_.def_of(operands_[side]).operands.front(); }
  [[nodiscard]] DType type(ValueId value) const { return graph_.values[value].type; }

  bool move_permutation(size_t side) {
    const auto* permute = graph_.def_as<PermuteOp>(operands_[side]);
    if (permute == nullptr) return false;
    std::vector<int> placed(permute->order.size());
    for (size_t axis = 0; axis < placed.size(); ++axis)
      placed[static_cast<size_t>(permute->order[axis])] = axes(side)[axis];
    axes(side) = std::move(placed);
    operands_[side] = source(side);
    return true;
  }

  bool move_broadcast(size_t side) {
    const auto* broadcast = graph_.def_as<BroadcastOp>(operands_[side]);
    if (broadcast == nullptr) return false;
    const std::vector<int>& other = axes(1 - side);
    for (size_t axis = 0; axis < axes(side).size(); ++axis) {
      if (has_axis(broadcast->axes, static_cast<int>(axis))) continue;
      const int place = axes(side)[axis];
      if (!has_axis(other, place) || has_axis(op_.reduced, place)) return false;
    }
    const Shape& from = graph_.values[source(side)].shape;
    const Shape& to = graph_.values[operands_[side]].shape;
    std::vector<int> placed;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      const auto at = static_cast<size_t>(broadcast->axes[axis]);
      if (from[axis] != to[at]) return false;  // An axis of one element that expands.
      placed.push_back(axes(side)[at]);
    }
    axes(side) = std::move(placed);
    operands_[side] = source(side);
    return true;
  }

  bool move_casts() {
    for (const size_t side : {0U, 1U}) {
      if (graph_.def_as<CastOp>(operands_[side]) == nullptr) return false;
    }
    const std::array narrow = {type(source(0)), type(source(1))};
    const DType to = type(operands_[0]);
    // Equal types alone are no cast at all; bool is not contracted.
    if (!contract_as_they_are(narrow[0], narrow[1]) || compute_type(narrow[0]) != to ||
        narrow[0] == to)
      return false;
    operands_ = {source(0), source(1)};
    op_.precision = ContractPrecision::kIeee;
    return true;
  }

  const Fusion& graph_;
  ContractOp op_;
  std::array<ValueId, 2> operands_;
};

}  // namespace

std::optional<Fusion> place_contractions(const Fusion& fusion) {
  return rewrite(fusion,
                 [&](Rewriter& rewriter, OpId id,
                     std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
                   const auto* op = std::get_if<ContractOp>(&fusion.ops[id].kind);
                   if (op == nullptr) return std::nullopt;
                   ContractionPlacement placement(rewriter.graph(), *op, operands);
                   if (!placement.run()) return std::nullopt;
                   return rewriter.append(placement.op(), placement.operands());
                 });
}

}  // namespace sinter
