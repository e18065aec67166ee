#include "scheduler/analysis/contraction.h"

#include <bitset>
#include <optional>
#include <variant>

namespace sinter {
namespace {

/// Axes of a value.
using AxisSet = std::bitset<kMaxRank>;

/// Axes of a value that have more than one element.
AxisSet long_axes(const Value& value) {
  AxisSet out;
  for (size_t axis = 0; axis < value.shape.size(); ++axis)
    out[axis] = value.shape[axis].constant() != 1;
  return out;
}

/// Maps axes of a reshape's operand to its result, if the reshape only inserts and removes axes of
/// one element; otherwise all axes.
AxisSet reshaped(const Value& operand, const Value& result, AxisSet varies) {
  std::vector<size_t> from;
  std::vector<size_t> to;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis)
    if (operand.shape[axis].constant() != 1) from.push_back(axis);
  for (size_t axis = 0; axis < result.shape.size(); ++axis)
    if (result.shape[axis].constant() != 1) to.push_back(axis);
  bool is_alike = from.size() == to.size();
  for (size_t i = 0; is_alike && i < from.size(); ++i)
    is_alike = operand.shape[from[i]].constant() == result.shape[to[i]].constant();
  if (!is_alike) return varies.none() ? AxisSet{} : long_axes(result);
  AxisSet out;
  for (size_t i = 0; i < from.size(); ++i) out[to[i]] = varies[from[i]];
  return out;
}

/// Maps axes of the operand to the result, for an op that moves elements; empty for other ops.
std::optional<AxisSet> moved(const Fusion& fusion, const Op& op, AxisSet axes) {
  AxisSet out;
  if (std::holds_alternative<CastOp>(op.kind)) return axes;
  if (const auto* broadcast = std::get_if<BroadcastOp>(&op.kind)) {
    for (size_t i = 0; i < broadcast->axes.size(); ++i)
      out[static_cast<size_t>(broadcast->axes[i])] = axes[i];
    return out;
  }
  if (const auto* permute = std::get_if<PermuteOp>(&op.kind)) {
    for (size_t i = 0; i < permute->order.size(); ++i)
      out[i] = axes[static_cast<size_t>(permute->order[i])];
    return out;
  }
  if (std::holds_alternative<ReshapeOp>(op.kind))
    return reshaped(fusion.values[op.operands[0]], fusion.values[op.results[0]], axes);
  return std::nullopt;
}

/// For every value, the axes along which its elements may differ: along the others it repeats.
class Variation {
 public:
  explicit Variation(const Fusion& fusion) : fusion_(fusion), varies_(fusion.values.size()) {
    for (const OpId id : fusion.op_ids()) {
      const Op& op = fusion.ops[id];
      for (const ValueId result : op.results) varies_[result.index] = of_result(op, result);
    }
  }

  [[nodiscard]] AxisSet of(ValueId value) const { return varies_[value.index]; }

 private:
  [[nodiscard]] AxisSet of_result(const Op& op, ValueId result) const {
    const Value& value = fusion_.values[result];
    AxisSet out;
    if (std::holds_alternative<ConstantOp>(op.kind)) return out;
    if (std::holds_alternative<PointwiseOp>(op.kind)) {
      for (const ValueId operand : op.operands) out |= of(operand);
      return out;
    }
    if (op.operands.size() == 1) {
      if (const auto axes = moved(fusion_, op, of(op.operands[0]))) return *axes;
    }
    if (std::holds_alternative<SliceOp>(op.kind)) return of(op.operands[0]) & long_axes(value);
    if (const auto* iota = std::get_if<IotaOp>(&op.kind)) {
      out[static_cast<size_t>(iota->axis)] = true;
      return out & long_axes(value);
    }
    return long_axes(value);
  }

  const Fusion& fusion_;
  std::vector<AxisSet> varies_;
};

/// The value from which this one is derived without computing or gathering elements.
ValueId behind_moves(const Fusion& fusion, ValueId value) {
  while (true) {
    const Op& op = fusion.def_of(value);
    const bool is_move =
        std::holds_alternative<CastOp>(op.kind) || std::holds_alternative<BroadcastOp>(op.kind) ||
        std::holds_alternative<PermuteOp>(op.kind) || std::holds_alternative<ReshapeOp>(op.kind);
    if (!is_move) return value;
    value = op.operands[0];
  }
}

/// Most ops to search between a sum and its factors. Longer chains are not searched, so that they
/// do not slow planning down.
constexpr size_t kMostStepsToFactors = 256;

/// True if an op moves the elements of a product, perhaps through further such ops.
bool leads_to_product(const Fusion& fusion, OpId id) {
  for (size_t step = 0; step < kMostStepsToFactors; ++step) {
    const Op& op = fusion.ops[id];
    if (const auto* pointwise = std::get_if<PointwiseOp>(&op.kind)) {
      if (pointwise->fn == PointwiseFn::kMul) return true;
      if (pointwise->fn != PointwiseFn::kNeg) return false;
    } else if (op.operands.size() != 1 || !moved(fusion, op, {})) {
      return false;
    }
    id = fusion.values[op.operands[0]].def;
  }
  return false;
}

/// A factor of a product, and the axes of the product along which it may differ.
struct Factor {
  ValueId value;
  AxisSet varies;
};

/// Factors of a product. A factor that is a product itself is replaced by its own factors, also
/// behind ops that move elements or change signs. A value that is no product is its only factor.
std::vector<Factor> factors_of(const Fusion& fusion, const Variation& variation, ValueId product) {
  // Repeated squares double the factors. A message with more than these would be no clearer.
  constexpr size_t kMostFactors = 16;
  /// A value, and the ops between it and the product, the nearest to the product first.
  struct Found {
    ValueId value;
    std::vector<OpId> moves{};
  };
  std::vector<Found> found{{product}};
  size_t steps = 0;
  for (size_t i = 0; i < found.size() && steps < kMostStepsToFactors; ++steps) {
    const OpId id = fusion.values[found[i].value].def;
    const Op& op = fusion.ops[id];
    const auto* pointwise = std::get_if<PointwiseOp>(&op.kind);
    if (pointwise != nullptr && pointwise->fn == PointwiseFn::kNeg) {
      found[i].value = op.operands[0];
    } else if (pointwise != nullptr && pointwise->fn == PointwiseFn::kMul &&
               found.size() < kMostFactors) {
      Found second = found[i];
      second.value = op.operands[1];
      found[i].value = op.operands[0];
      found.insert(found.begin() + static_cast<ptrdiff_t>(i) + 1, std::move(second));
    } else if (leads_to_product(fusion, id)) {
      found[i].moves.push_back(id);
      found[i].value = op.operands[0];
    } else {
      ++i;
    }
  }
  std::vector<Factor> out;
  for (const Found& factor : found) {
    AxisSet axes = variation.of(factor.value);
    for (auto move = factor.moves.rbegin(); move != factor.moves.rend(); ++move)
      axes = *moved(fusion, fusion.ops[*move], axes);
    out.push_back({factor.value, axes});
  }
  return out;
}

/// Elements of some axes of a value.
int64_t elements_along(const Value& value, AxisSet axes) {
  std::vector<int64_t> sizes;
  for (size_t axis = 0; axis < value.shape.size(); ++axis)
    if (axes[axis]) sizes.push_back(value.shape[axis].constant());
  return element_count(sizes);
}

std::optional<Contraction> contraction_of(const Fusion& fusion, const Variation& variation,
                                          const Op& op) {
  const auto* reduce = std::get_if<ReduceOp>(&op.kind);
  if (reduce == nullptr || reduce->fn != ReduceFn::kSum) return std::nullopt;
  const Value& product = fusion.values[op.operands[0]];
  AxisSet summed;
  for (const int axis : reduce->axes) summed[static_cast<size_t>(axis)] = true;
  const std::vector<Factor> factors = factors_of(fusion, variation, op.operands[0]);
  for (size_t i = 0; i < factors.size(); ++i) {
    for (size_t j = i + 1; j < factors.size(); ++j) {
      const AxisSet left = factors[i].varies;
      const AxisSet right = factors[j].varies;
      const AxisSet m = left & ~right & ~summed;
      const AxisSet n = right & ~left & ~summed;
      const AxisSet k = left & right & summed;
      if (m.none() || n.none() || k.none()) continue;
      return Contraction{.value = op.results[0],
                         .left = behind_moves(fusion, factors[i].value),
                         .right = behind_moves(fusion, factors[j].value),
                         .batch = elements_along(product, left & right & ~summed),
                         .m = elements_along(product, m),
                         .n = elements_along(product, n),
                         .k = elements_along(product, k)};
    }
  }
  return std::nullopt;
}

std::string named(const Fusion& fusion, ValueId value) {
  const std::string& name = fusion.values[value].name;
  return name.empty() ? fmt::format("{}", value) : fmt::format("{} '{}'", value, name);
}

}  // namespace

std::vector<Contraction> find_contractions(const Fusion& fusion) {
  std::vector<Contraction> out;
  const Variation variation(fusion);
  for (const OpId id : fusion.op_ids()) {
    if (auto found = contraction_of(fusion, variation, fusion.ops[id]))
      out.push_back(std::move(*found));
  }
  return out;
}

std::string text_of(const Contraction& contraction, const Fusion& fusion) {
  return fmt::format(
      "{} is a matrix product of {} and {} written element by element: {}{} x {} x "
      "{} (M x N x K)",
      named(fusion, contraction.value), named(fusion, contraction.left),
      named(fusion, contraction.right),
      contraction.batch == 1 ? "" : fmt::format("{} times ", contraction.batch), contraction.m,
      contraction.n, contraction.k);
}

Decision decision_of(const Contraction& contraction, const Fusion& fusion) {
  return {.question = fmt::format("how is the matrix product {} computed",
                                  named(fusion, contraction.value)),
          .chosen = "by ordinary arithmetic, without tensor cores",
          .because = fmt::format(
              "{}; its kernel is predicted to take {:.1f} us. The matmul family multiplies "
              "matrices: write it as a contraction (matmul, linear, contract)",
              text_of(contraction, fusion), contraction.predicted_us)};
}

}  // namespace sinter
