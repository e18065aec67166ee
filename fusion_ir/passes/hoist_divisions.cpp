#include "fusion_ir/passes/hoist_divisions.h"

#include <cmath>
#include <limits>

#include "fusion_ir/match.h"
#include "fusion_ir/rewriter.h"

namespace sinter {
namespace {

struct SafeReciprocal {
  PointwiseFn fn;
  ValueId argument;
};

/// True for max(a * k, c) in f32 with constants |k| <= 1/4 and 2^-126 <= c <= 2^126, a scale with a
/// floor: no a but an infinity takes it out of [c, 2^126].
bool is_bounded_scale(const Fusion& graph, ValueId divisor) {
  constexpr double kMostFactor = 0.25;
  constexpr double kLeast = 0x1p-126;
  const auto terms = operands_of(graph, divisor, PointwiseFn::kMax);
  if (terms.empty() || graph.values[divisor].type != DType::kF32) return false;
  for (const size_t i : {0U, 1U}) {
    const auto floor = splat_constant(graph, terms[i]);
    if (!floor || !(floor->real >= kLeast && floor->real <= 1.0 / kLeast)) continue;
    for (const ValueId factor : operands_of(graph, terms[1 - i], PointwiseFn::kMul)) {
      const auto constant = splat_constant(graph, factor);
      if (constant && std::fabs(constant->real) <= kMostFactor) return true;
    }
  }
  return false;
}

/// How to get 1 / divisor from a value of the divisor's shape.
std::optional<SafeReciprocal> safe_reciprocal(const Fusion& graph, ValueId divisor,
                                              bool is_broadcast) {
  const auto root = operands_of(graph, divisor, PointwiseFn::kSqrt);
  if (!root.empty()) return SafeReciprocal{PointwiseFn::kRsqrt, root.front()};
  const bool is_pair_sum =
      graph.def_as<LogSumExpOp>(divisor) != nullptr && graph.values[divisor].result == 1;
  if (is_broadcast && (is_pair_sum || is_bounded_scale(graph, divisor))) {
    return SafeReciprocal{PointwiseFn::kReciprocal, divisor};
  }
  return std::nullopt;
}

/// What to multiply an f32 by instead of dividing it by a constant, if both are normal numbers.
std::optional<double> factor_of_division(const Fusion& graph, ValueId divisor) {
  if (graph.values[divisor].type != DType::kF32) return std::nullopt;
  const auto constant = splat_constant(graph, divisor);
  if (!constant) return std::nullopt;
  const double factor = round_to(DType::kF32, 1.0 / constant->real);
  const auto is_normal = [](double x) {
    return std::fabs(x) >= std::numeric_limits<float>::min() && std::isfinite(x);
  };
  if (!is_normal(constant->real) || !is_normal(factor)) return std::nullopt;
  return factor;
}

}  // namespace

std::optional<Fusion> hoist_divisions(const Fusion& fusion) {
  return rewrite(
      fusion,
      [](Rewriter& rewriter, OpId id,
         std::span<const ValueId> operands) -> std::optional<std::vector<ValueId>> {
        const auto* op = std::get_if<PointwiseOp>(&rewriter.source().ops[id].kind);
        if (op == nullptr || op->fn != PointwiseFn::kDiv) return std::nullopt;
        const Fusion& graph = rewriter.graph();
        const ValueId divisor = operands[1];
        if (const auto factor = factor_of_division(graph, divisor)) {
          const Shape like = graph.values[divisor].shape;
          const ValueId splat = rewriter.splat({.real = *factor}, DType::kF32, like);
          return std::vector{rewriter.pointwise(PointwiseFn::kMul, {operands[0], splat})};
        }
        const auto* broadcast = graph.def_as<BroadcastOp>(divisor);
        const ValueId small =
            broadcast != nullptr ? graph.def_of(divisor).operands.front() : divisor;
        const auto reciprocal = safe_reciprocal(graph, small, broadcast != nullptr);
        if (!reciprocal) return std::nullopt;
        const std::vector<int> axes = broadcast != nullptr ? broadcast->axes : std::vector<int>{};
        const Shape shape = graph.values[divisor].shape;
        const ValueId inverse = rewriter.pointwise(reciprocal->fn, {reciprocal->argument});
        const ValueId factor = rewriter.broadcast(inverse, shape, axes);
        return std::vector{rewriter.pointwise(PointwiseFn::kMul, {operands[0], factor})};
      });
}

}  // namespace sinter
