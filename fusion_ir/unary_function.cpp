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

bool is_tanh_gelu(const Fusion& fusion, const UnaryFunction& function) {
  constexpr int kPoints = 16;  // On each side of 0.
  constexpr double kFarthest = 8.0;
  constexpr double kTolerance = 1e-6;  // Constants of a graph are rounded to f32.
  constexpr double kCubic = 0.044715;
  for (int i = -kPoints; i <= kPoints; ++i) {
    const double x = kFarthest * i / kPoints;
    const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + kCubic * x * x * x);
    const double gelu = 0.5 * x * (1.0 + std::tanh(inner));
    // A NaN differs too.
    if (!(std::abs(evaluate(fusion, function, x) - gelu) <= kTolerance)) return false;
  }
  return true;
}

}  // namespace sinter
