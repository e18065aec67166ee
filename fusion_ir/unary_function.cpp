#include "fusion_ir/unary_function.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "fusion_ir/match.h"

namespace sinter {
namespace {

bool is_random(PointwiseFn fn) { return info_of(fn).typing == Typing::kRandom; }

/// True for functions that are analytic where they are finite. Two compositions of a few of them
/// that agree at many irregular points are the same; with a comparison or a rounding between them
/// they may differ anywhere else.
bool is_analytic(PointwiseFn fn) {
  switch (fn) {
    case PointwiseFn::kAdd:
    case PointwiseFn::kSub:
    case PointwiseFn::kMul:
    case PointwiseFn::kDiv:
    case PointwiseFn::kReciprocal:
    case PointwiseFn::kNeg:
    case PointwiseFn::kExp:
    case PointwiseFn::kTanh:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<UnaryFunction> unary_function(const Fusion& fusion, ValueId argument) {
  UnaryFunction out{.argument = argument, .result = {}, .ops = {}};
  std::set<ValueId> inside;
  for (const OpId id : fusion.op_ids()) {
    const Op& op = fusion.ops[id];
    const auto* pointwise = std::get_if<PointwiseOp>(&op.kind);
    if (pointwise == nullptr || is_random(pointwise->fn)) continue;
    const auto comes_from_it = [&](ValueId v) { return v == argument || inside.contains(v); };
    const bool takes = std::ranges::any_of(op.operands, comes_from_it) &&
                       std::ranges::all_of(op.operands, [&](ValueId v) {
                         return comes_from_it(v) || splat_constant(fusion, v).has_value();
                       });
    if (!takes) continue;
    for (const ValueId operand : op.operands) {
      if (comes_from_it(operand)) continue;
      for (ValueId v = operand;; v = fusion.def_of(v).operands.front()) {
        out.ops.push_back(fusion.values[v].def);
        if (fusion.def_of(v).operands.empty()) break;
      }
    }
    out.ops.push_back(id);
    inside.insert(op.results.front());
  }
  const auto users = users_of(fusion);
  const auto is_own = [&](OpId op) { return std::ranges::find(out.ops, op) != out.ops.end(); };
  const auto is_used_outside = [&](ValueId value) {
    return std::ranges::find(fusion.outputs, value) != fusion.outputs.end() ||
           !std::ranges::all_of(users[value], is_own);
  };
  if (is_used_outside(argument)) return std::nullopt;
  for (const ValueId value : inside) {
    if (!is_used_outside(value)) continue;
    if (out.result.valid()) return std::nullopt;
    out.result = value;
  }
  if (!out.result.valid()) return std::nullopt;
  return out;
}

double evaluate(const Fusion& fusion, const UnaryFunction& function, double x) {
  std::map<ValueId, double> values = {{function.argument, x}};
  const auto value_of = [&](ValueId value) {
    const auto known = values.find(value);
    return known != values.end() ? known->second : splat_constant(fusion, value)->real;
  };
  for (const OpId id : function.ops) {
    const Op& op = fusion.ops[id];
    const auto* pointwise = std::get_if<PointwiseOp>(&op.kind);
    if (pointwise == nullptr) continue;
    std::array<double, 3> operands = {};
    for (size_t i = 0; i < op.operands.size(); ++i) operands[i] = value_of(op.operands[i]);
    values[op.results.front()] = evaluate(pointwise->fn, operands[0], operands[1], operands[2]);
  }
  return values.at(function.result);
}

double tanh_gelu(double x) {
  constexpr double kCubic = 0.044715;
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + kCubic * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

bool is_tanh_gelu(const Fusion& fusion, const UnaryFunction& function) {
  for (const OpId id : function.ops) {
    const Op& op = fusion.ops[id];
    const auto* pointwise = std::get_if<PointwiseOp>(&op.kind);
    if (pointwise != nullptr && !is_analytic(pointwise->fn)) return false;
    if (fusion.values[op.results.front()].type != DType::kF32) return false;
  }
  constexpr int kPoints = 16;  // On each side of 0.
  constexpr double kStep = 0.4973;
  constexpr double kFar = 90.0;
  constexpr double kTolerance = 1e-6;  // Constants of a graph are rounded to f32.
  const auto agrees = [&](double x) {
    // A NaN differs too.
    return std::abs(evaluate(fusion, function, x) - tanh_gelu(x)) <=
           kTolerance * std::max(1.0, std::abs(x));
  };
  for (int i = -kPoints; i <= kPoints; ++i) {
    if (!agrees(kStep * i)) return false;
  }
  return agrees(kFar) && agrees(-kFar);
}

}  // namespace sinter
