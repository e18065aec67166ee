#include "fusion_ir/passes/simplify_algebra.h"

#include <algorithm>
#include <cmath>

#include "fusion_ir/match.h"
#include "fusion_ir/passes/simplify_moves.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

using Replacement = std::optional<ValueId>;
using Operands = std::span<const ValueId>;

/// x if `value` is fn(x), else nothing.
Replacement argument_of(const Fusion& graph, ValueId value, PointwiseFn fn) {
  const auto operands = operands_of(graph, value, fn);
  return operands.empty() ? std::nullopt : Replacement(operands.front());
}

/// b, broadcast like `value`, if `value` is -b or a broadcast of -b.
Replacement negated(Rewriter& rewriter, ValueId value) {
  const Fusion& graph = rewriter.graph();
  if (const auto b = argument_of(graph, value, PointwiseFn::kNeg)) return b;
  const auto* broadcast = graph.def_as<BroadcastOp>(value);
  if (broadcast == nullptr) return std::nullopt;
  const auto b = argument_of(graph, graph.def_of(value).operands.front(), PointwiseFn::kNeg);
  if (!b) return std::nullopt;
  const std::vector<int> axes = broadcast->axes;
  const Shape shape = graph.values[value].shape;
  return rewriter.broadcast(*b, shape, axes);
}

Replacement simplify_add(Rewriter& rewriter, Operands operands) {
  const Fusion& graph = rewriter.graph();
  const bool is_real = is_float(graph.values[operands[0]].type);
  for (size_t i = 0; i < 2; ++i) {
    if (is_splat_of(graph, operands[i], is_real ? -0.0 : 0.0)) return operands[1 - i];
  }
  for (size_t i = 0; i < 2; ++i) {
    if (const auto b = negated(rewriter, operands[1 - i])) {
      return rewriter.pointwise(PointwiseFn::kSub, {operands[i], *b});
    }
  }
  return std::nullopt;
}

Replacement simplify_sub(Rewriter& rewriter, Operands operands) {
  const Fusion& graph = rewriter.graph();
  const bool is_real = is_float(graph.values[operands[0]].type);
  if (is_splat_of(graph, operands[1], 0.0)) return operands[0];
  if (is_splat_of(graph, operands[0], is_real ? -0.0 : 0.0)) {
    return rewriter.pointwise(PointwiseFn::kNeg, {operands[1]});
  }
  if (const auto b = negated(rewriter, operands[1])) {
    return rewriter.pointwise(PointwiseFn::kAdd, {operands[0], *b});
  }
  return std::nullopt;
}

Replacement simplify_mul(Rewriter& rewriter, Operands operands) {
  const Fusion& graph = rewriter.graph();
  const bool is_real = is_float(graph.values[operands[0]].type);
  for (size_t i = 0; i < 2; ++i) {
    const ValueId other = operands[1 - i];
    if (is_splat_of(graph, operands[i], 1.0)) return other;
    if (is_splat_of(graph, operands[i], -1.0))
      return rewriter.pointwise(PointwiseFn::kNeg, {other});
    if (!is_real && is_splat_of(graph, operands[i], 0.0)) return operands[i];
  }
  return std::nullopt;
}

/// The reciprocal of a power of two, if both are normal numbers of the type: x / c and x * (1/c)
/// are then the same real number, rounded once.
std::optional<double> exact_reciprocal(DType type, double c) {
  int exponent = 0;
  const double mantissa = std::fabs(std::frexp(c, &exponent));
  const double inverse = 1.0 / c;
  const double smallest_normal = smallest_subnormal(type) / (2.0 * unit_roundoff(type));
  const bool is_normal = std::fabs(c) >= smallest_normal && std::fabs(inverse) >= smallest_normal &&
                         std::fabs(c) <= largest_finite(type) &&
                         std::fabs(inverse) <= largest_finite(type);
  if (mantissa != 0.5 || !is_normal) return std::nullopt;
  return inverse;
}

Replacement simplify_div(Rewriter& rewriter, Operands operands) {
  const Fusion& graph = rewriter.graph();
  const DType type = graph.values[operands[0]].type;
  if (is_splat_of(graph, operands[1], 1.0)) return operands[0];
  if (!is_float(type)) return std::nullopt;
  if (is_splat_of(graph, operands[0], 1.0)) {
    return rewriter.pointwise(PointwiseFn::kReciprocal, {operands[1]});
  }
  const auto constant = splat_constant(graph, operands[1]);
  const auto inverse = constant ? exact_reciprocal(type, constant->real) : std::nullopt;
  if (!inverse) return std::nullopt;
  const Shape shape = graph.values[operands[0]].shape;
  const ValueId factor = rewriter.splat({.real = *inverse}, type, shape);
  return rewriter.pointwise(PointwiseFn::kMul, {operands[0], factor});
}

/// 1 + tanh(x) = 2 / (1 + exp(-2 x)), and 1 - tanh(x) = 2 / (1 + exp(2 x)): fewer instructions than
/// tanh has, and what is near 0 keeps all of its digits. Needs: nothing else reads tanh(x).
Replacement simplify_one_and_tanh(Rewriter& rewriter, PointwiseFn fn, Operands operands) {
  if (fn != PointwiseFn::kAdd && fn != PointwiseFn::kSub) return std::nullopt;
  const Fusion& graph = rewriter.graph();
  for (size_t i = 0; i < (fn == PointwiseFn::kAdd ? 2U : 1U); ++i) {
    const auto x = argument_of(graph, operands[1 - i], PointwiseFn::kTanh);
    if (!x || !is_splat_of(graph, operands[i], 1.0)) continue;
    const DType type = graph.values[*x].type;
    const Shape shape = graph.values[*x].shape;
    const auto number = [&](double value) { return rewriter.splat({.real = value}, type, shape); };
    const double factor = fn == PointwiseFn::kAdd ? -2.0 : 2.0;
    const ValueId exponent = rewriter.pointwise(PointwiseFn::kMul, {*x, number(factor)});
    const ValueId power = rewriter.pointwise(PointwiseFn::kExp, {exponent});
    const ValueId divisor = rewriter.pointwise(PointwiseFn::kAdd, {power, number(1.0)});
    const ValueId inverse = rewriter.pointwise(PointwiseFn::kReciprocal, {divisor});
    return rewriter.pointwise(PointwiseFn::kMul, {inverse, number(2.0)});
  }
  return std::nullopt;
}

Replacement simplify_pow(Rewriter& rewriter, Operands operands) {
  const Fusion& graph = rewriter.graph();
  const ValueId x = operands[0];
  const auto exponent = splat_constant(graph, operands[1]);
  if (!exponent) return std::nullopt;
  if (exponent->real == 0.0) {
    const Value result = graph.values[x];
    return rewriter.splat({.real = 1.0}, result.type, result.shape);
  }
  if (exponent->real == 1.0) return x;
  if (exponent->real == -1.0) return rewriter.pointwise(PointwiseFn::kReciprocal, {x});
  if (exponent->real != 2.0 && exponent->real != 3.0) return std::nullopt;
  const ValueId square = rewriter.pointwise(PointwiseFn::kMul, {x, x});
  return exponent->real == 2.0 ? square : rewriter.pointwise(PointwiseFn::kMul, {square, x});
}

Replacement simplify_select(Rewriter& rewriter, Operands operands) {
  const Fusion& graph = rewriter.graph();
  if (operands[1] == operands[2]) return operands[1];
  if (const auto condition = splat_constant(graph, operands[0])) {
    return condition->integer != 0 ? operands[1] : operands[2];
  }
  if (const auto inverse = argument_of(graph, operands[0], PointwiseFn::kNot)) {
    return rewriter.pointwise(PointwiseFn::kSelect, {*inverse, operands[2], operands[1]});
  }
  return std::nullopt;
}

Replacement simplify_abs(Rewriter& rewriter, Operands operands) {
  if (!operands_of(rewriter.graph(), operands[0], PointwiseFn::kAbs).empty()) return operands[0];
  if (const auto x = argument_of(rewriter.graph(), operands[0], PointwiseFn::kNeg)) {
    return rewriter.pointwise(PointwiseFn::kAbs, {*x});
  }
  return std::nullopt;
}

Replacement simplify_pointwise(Rewriter& rewriter, PointwiseFn fn, Operands operands) {
  const Fusion& graph = rewriter.graph();
  switch (fn) {
    case PointwiseFn::kNeg:
    case PointwiseFn::kNot:
      return argument_of(graph, operands[0], fn);
    case PointwiseFn::kAbs:
      return simplify_abs(rewriter, operands);
    case PointwiseFn::kAdd:
      return simplify_add(rewriter, operands);
    case PointwiseFn::kSub:
      return simplify_sub(rewriter, operands);
    case PointwiseFn::kMul:
      return simplify_mul(rewriter, operands);
    case PointwiseFn::kDiv:
      return simplify_div(rewriter, operands);
    case PointwiseFn::kPow:
      return simplify_pow(rewriter, operands);
    case PointwiseFn::kReciprocal:
      if (const auto x = argument_of(graph, operands[0], PointwiseFn::kSqrt)) {
        return rewriter.pointwise(PointwiseFn::kRsqrt, {*x});
      }
      return std::nullopt;
    case PointwiseFn::kMax:
    case PointwiseFn::kMin:
    case PointwiseFn::kAnd:
    case PointwiseFn::kOr:
      return operands[0] == operands[1] ? Replacement(operands[0]) : std::nullopt;
    case PointwiseFn::kSelect:
      return simplify_select(rewriter, operands);
    case PointwiseFn::kExp:
    case PointwiseFn::kExp2:
    case PointwiseFn::kExpm1:
    case PointwiseFn::kLog:
    case PointwiseFn::kLog2:
    case PointwiseFn::kLog1p:
    case PointwiseFn::kSqrt:
    case PointwiseFn::kRsqrt:
    case PointwiseFn::kSin:
    case PointwiseFn::kCos:
    case PointwiseFn::kTanh:
    case PointwiseFn::kErf:
    case PointwiseFn::kFloor:
    case PointwiseFn::kCeil:
    case PointwiseFn::kTrunc:
    case PointwiseFn::kRound:
    case PointwiseFn::kIsNan:
    case PointwiseFn::kIsFinite:
    case PointwiseFn::kRem:
    case PointwiseFn::kXor:
    case PointwiseFn::kEq:
    case PointwiseFn::kNe:
    case PointwiseFn::kLt:
    case PointwiseFn::kLe:
    case PointwiseFn::kGt:
    case PointwiseFn::kGe:
    case PointwiseFn::kFma:
    case PointwiseFn::kClamp:
    case PointwiseFn::kPhiloxUniform:
      return std::nullopt;
  }
  unreachable();
}

/// round(clamp(x, low, high)) if `value` is clamp(round(x), low, high) with integers for bounds, to
/// which rounding keeps its order.
Replacement clamped_before_rounding(Rewriter& rewriter, ValueId value) {
  const Fusion& graph = rewriter.graph();
  const auto clamped = operands_of(graph, value, PointwiseFn::kClamp);
  const auto is_integer = [&](ValueId bound) {
    const auto constant = splat_constant(graph, bound);
    return constant && std::nearbyint(constant->real) == constant->real;
  };
  if (clamped.empty() || !is_integer(clamped[1]) || !is_integer(clamped[2])) return std::nullopt;
  const auto x = argument_of(graph, clamped[0], PointwiseFn::kRound);
  if (!x) return std::nullopt;
  const std::vector<ValueId> operands = {*x, clamped[1], clamped[2]};
  const ValueId inside = rewriter.pointwise(PointwiseFn::kClamp, operands);
  return rewriter.pointwise(PointwiseFn::kRound, {inside});
}

Replacement simplify_cast(Rewriter& rewriter, ValueId operand, DType type) {
  const Fusion& graph = rewriter.graph();
  const DType middle = graph.values[operand].type;
  if (middle == type) return operand;
  if (is_integer(type)) {
    if (const auto x = clamped_before_rounding(rewriter, operand)) return rewriter.cast(*x, type);
  }
  if (graph.def_as<CastOp>(operand) == nullptr) return std::nullopt;
  const ValueId x = graph.def_of(operand).operands.front();
  if (!casts_exactly(graph.values[x].type, middle)) return std::nullopt;
  return rewriter.cast(x, type);
}

/// Of an axis of one element an index takes that element, or nothing, which is 0.
Replacement simplify_take(Rewriter& rewriter, const TakeOp& take, Operands operands,
                          const Value& result) {
  const Fusion& graph = rewriter.graph();
  const Value source = graph.values[operands[0]];
  const Value index = graph.values[operands[1]];
  if (!source.shape[static_cast<size_t>(take.axis)].is_one()) return std::nullopt;
  const DType type = compute_type(result.type);
  const ValueId first = rewriter.splat({.integer = 0}, index.type, index.shape);
  const ValueId is_first = rewriter.pointwise(PointwiseFn::kEq, {operands[1], first});
  const ValueId element =
      rewriter.append(ReshapeOp{}, {operands[0]}, source.type, result.shape).front();
  const ValueId nothing = rewriter.splat({}, type, result.shape);
  const ValueId taken =
      rewriter.pointwise(PointwiseFn::kSelect, {is_first, rewriter.cast(element, type), nothing});
  return rewriter.cast(taken, result.type);
}

}  // namespace

std::optional<Fusion> simplify_algebra(const Fusion& fusion) {
  IdMap<ValueId, uint8_t> outputs(fusion.values.size());
  for (const ValueId output : fusion.outputs) outputs[output] = 1;
  IdMap<ValueId, int> readers(fusion.values.size());
  for (const Op& op : fusion.ops) {
    for (const ValueId operand : op.operands) ++readers[operand];
  }
  const auto is_read_once = [&](ValueId value) {
    return readers[value] == 1 && outputs[value] == 0;
  };
  return rewrite(
      fusion,
      [&](Rewriter& rewriter, OpId id, Operands operands) -> std::optional<std::vector<ValueId>> {
        const Op& op = fusion.ops[id];
        const ValueId result = op.results.front();
        Replacement replacement;
        if (const auto* pointwise = std::get_if<PointwiseOp>(&op.kind)) {
          replacement = simplify_pointwise(rewriter, pointwise->fn, operands);
          const bool reads_tanh = std::ranges::any_of(op.operands, [&](ValueId operand) {
            return !operands_of(fusion, operand, PointwiseFn::kTanh).empty() &&
                   is_read_once(operand);
          });
          if (!replacement && reads_tanh)
            replacement = simplify_one_and_tanh(rewriter, pointwise->fn, operands);
        } else if (std::holds_alternative<CastOp>(op.kind)) {
          replacement = simplify_cast(rewriter, operands.front(), fusion.values[result].type);
        } else if (const auto* take = std::get_if<TakeOp>(&op.kind)) {
          replacement = simplify_take(rewriter, *take, operands, fusion.values[result]);
        } else if (operands.size() == 1) {
          // An output that is a copy has to stay one.
          if (outputs[result] != 0 && is_copy(fusion, result)) return std::nullopt;
          replacement = simplify_move(rewriter, op.kind, operands.front(), fusion.values[result]);
        }
        if (!replacement) return std::nullopt;
        return std::vector{*replacement};
      });
}

}  // namespace sinter
