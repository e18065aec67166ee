#include "codegen/kernel/combine.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "fusion_ir/error.h"
#include "fusion_ir/reduction_traits.h"

namespace sinter::kir {

namespace {

ExprId lowest_of(KernelBuilder& b, DType type) {
  if (is_float(type)) return b.real(-std::numeric_limits<double>::infinity(), type);
  return b.integer(type == DType::kI64 ? std::numeric_limits<int64_t>::min()
                                       : std::numeric_limits<int32_t>::min(),
                   type);
}

ExprId highest_of(KernelBuilder& b, DType type) {
  if (is_float(type)) return b.real(std::numeric_limits<double>::infinity(), type);
  return b.integer(type == DType::kI64 ? std::numeric_limits<int64_t>::max()
                                       : std::numeric_limits<int32_t>::max(),
                   type);
}

ExprId zero_of(KernelBuilder& b, DType type) {
  return is_float(type) ? b.real(0.0, type) : b.integer(0, type);
}

/// An expression that is cheap to name several times: the expression itself if it is a leaf, else a
/// variable that holds it.
ExprId held(KernelBuilder& b, const char* name, ExprId expr) {
  const ExprKind& kind = b.kernel().exprs[expr].kind;
  if (!std::holds_alternative<PointwiseExpr>(kind) && !std::holds_alternative<CastExpr>(kind)) {
    return expr;
  }
  return b.ref(b.declare(name, expr));
}

void combine_independent(KernelBuilder& b, std::span<const ReductionComponent> components,
                         std::span<const VarId> accumulators, std::span<const ExprId> others) {
  for (size_t i = 0; i < components.size(); ++i) {
    b.assign(accumulators[i],
             b.apply(components[i].combine.value(), {b.ref(accumulators[i]), others[i]}));
  }
}

void combine_arg_extreme(KernelBuilder& b, PointwiseFn beats, std::span<const VarId> accumulators,
                         std::span<const ExprId> others) {
  const ExprId value = b.ref(accumulators[0]);
  const ExprId index = b.ref(accumulators[1]);
  const ExprId other_value = held(b, "other_value", others[0]);
  const ExprId other_index = held(b, "other_index", others[1]);
  ExprId wins = b.apply(beats, {other_value, value});
  ExprId ties = b.equal(other_value, value);
  if (is_float(b.type_of(value))) {
    const ExprId is_nan = b.apply(PointwiseFn::kIsNan, {value});
    const ExprId other_is_nan = b.apply(PointwiseFn::kIsNan, {other_value});
    wins = b.apply(PointwiseFn::kOr,
                   {wins, b.both(other_is_nan, b.apply(PointwiseFn::kNot, {is_nan}))});
    ties = b.apply(PointwiseFn::kOr, {ties, b.both(other_is_nan, is_nan)});
  }
  const ExprId lower = b.both(ties, b.less(other_index, index));
  const ExprId take = b.ref(b.declare("take", b.apply(PointwiseFn::kOr, {wins, lower})));
  b.assign(accumulators[0], b.select(take, other_value, value));
  b.assign(accumulators[1], b.select(take, other_index, index));
}

/// The difference of the means is taken in halves, which are finite whatever the means are, and is
/// exactly 0 between equal ones. Its square is never formed alone: it may overflow although m2 does
/// not, and would then be multiplied by a weight of 0.
void combine_welford(KernelBuilder& b, std::span<const VarId> accumulators,
                     std::span<const ExprId> others) {
  const ExprId count = b.ref(accumulators[0]);
  const ExprId mean = b.ref(accumulators[1]);
  const ExprId m2 = b.ref(accumulators[2]);
  const DType type = b.type_of(count);
  const ExprId zero = zero_of(b, type);
  const ExprId half = b.real(0.5, type);
  const ExprId other_count = held(b, "other_count", others[0]);
  const ExprId other_mean = held(b, "other_mean", others[1]);
  const ExprId total = b.ref(b.declare("total", b.add(count, other_count)));
  const ExprId half_delta =
      b.ref(b.declare("half_delta", b.sub(b.mul(other_mean, half), b.mul(mean, half))));
  // Counts are whole numbers: a total below 1 is 0, and then the weight is 0 / 1.
  const ExprId twice_weight = b.ref(b.declare(
      "twice_weight", b.div(b.add(other_count, other_count), b.max(total, b.real(1.0, type)))));
  const ExprId between =
      b.mul(b.mul(half_delta, b.mul(count, twice_weight)), b.add(half_delta, half_delta));
  // The difference from an infinite mean is NaN if the other mean is the same infinity.
  const ExprId merged = b.select(b.apply(PointwiseFn::kIsFinite, {mean}),
                                 b.apply(PointwiseFn::kFma, {half_delta, twice_weight, mean}),
                                 b.add(mean, other_mean));
  const ExprId kept = b.select(b.equal(other_count, zero), mean, merged);
  const ExprId new_mean = b.select(b.equal(count, zero), other_mean, kept);
  b.assign(accumulators[2], b.add(b.add(m2, others[2]), between));
  b.assign(accumulators[1], new_mean);
  b.assign(accumulators[0], total);
}

void combine_log_sum_exp(KernelBuilder& b, std::span<const VarId> accumulators,
                         std::span<const ExprId> others) {
  const ExprId max = b.ref(accumulators[0]);
  const ExprId sum = b.ref(accumulators[1]);
  const DType type = b.type_of(max);
  const ExprId other_max = held(b, "other_max", others[0]);
  const ExprId other_sum = held(b, "other_sum", others[1]);
  const ExprId larger = b.ref(b.declare("larger", b.max(max, other_max)));
  // The tuple with the larger maximum keeps its sum, so one exponential serves both.
  const ExprId smaller = b.min(max, other_max);
  const ExprId nothing = b.equal(larger, lowest_of(b, type));
  const ExprId distance = b.select(nothing, zero_of(b, type), b.sub(smaller, larger));
  const ExprId scale = b.ref(b.declare("scale", b.apply(PointwiseFn::kExp, {distance})));
  const ExprId mine =
      b.ref(b.declare("mine_is_larger", b.apply(PointwiseFn::kGt, {max, other_max})));
  b.assign(accumulators[1], b.apply(PointwiseFn::kFma, {b.select(mine, other_sum, sum), scale,
                                                        b.select(mine, sum, other_sum)}));
  b.assign(accumulators[0], larger);
}

}  // namespace

ExprId identity_of(KernelBuilder& b, Combiner combiner, int64_t component, DType type) {
  switch (traits_of(combiner).components[static_cast<size_t>(component)].identity) {
    case Identity::kZero:
      return type == DType::kBool ? b.boolean(false) : zero_of(b, type);
    case Identity::kOne:
      if (type == DType::kBool) return b.boolean(true);
      return is_float(type) ? b.real(1.0, type) : b.integer(1, type);
    case Identity::kLowest:
      return lowest_of(b, type);
    case Identity::kHighest:
      return highest_of(b, type);
  }
  unreachable();
}

ExprId is_same(KernelBuilder& b, ExprId x, ExprId y) {
  const ExprId equal = b.equal(x, y);
  if (!is_float(b.type_of(x))) return equal;
  const ExprId are_nan =
      b.both(b.apply(PointwiseFn::kIsNan, {x}), b.apply(PointwiseFn::kIsNan, {y}));
  return b.apply(PointwiseFn::kOr, {equal, are_nan});
}

ExprId place_of_extreme(KernelBuilder& b, ExprId index) {
  const ExprId nowhere = highest_of(b, b.type_of(index));
  return b.select(b.equal(index, nowhere), b.integer(0, DType::kI64), b.cast(index, DType::kI64));
}

void emit_append(KernelBuilder& b, Combiner combiner, std::span<const VarId> accumulators,
                 std::span<const ExprId> element) {
  if (!traits_of(combiner).is_search()) return emit_combine(b, combiner, accumulators, element);
  const ExprId value = b.ref(accumulators[0]);
  const ExprId x = held(b, "element", element[0]);
  const bool is_max = traits_of(combiner).first_pass == Reduction::kMax;
  ExprId wins;
  if (is_float(b.type_of(value))) {
    // A NaN element wins too, unless the accumulator is already NaN.
    const ExprId loses = b.apply(is_max ? PointwiseFn::kLe : PointwiseFn::kGe, {x, value});
    wins = b.both(b.apply(PointwiseFn::kNot, {loses}), b.equal(value, value));
  } else {
    wins = b.apply(is_max ? PointwiseFn::kGt : PointwiseFn::kLt, {x, value});
  }
  const ExprId take = b.ref(b.declare("take", wins));
  b.assign(accumulators[0], b.select(take, x, value));
  b.assign(accumulators[1], b.select(take, element[1], b.ref(accumulators[1])));
}

std::vector<ExprId> independent_element(KernelBuilder& b, Combiner combiner, ExprId x) {
  const auto components = traits_of(combiner).components;
  const bool is_plain = std::ranges::none_of(components, [](const ReductionComponent& component) {
    return component.element.has_value();
  });
  const ExprId element = is_plain ? x : held(b, "element", x);
  std::vector<ExprId> tuple;
  for (const ReductionComponent& component : components) {
    if (!component.element) {
      tuple.push_back(element);
      continue;
    }
    const auto arity = static_cast<size_t>(info_of(*component.element).arity);
    tuple.push_back(b.apply(*component.element, std::vector<ExprId>(arity, element)));
  }
  return tuple;
}

std::vector<ExprId> welford_element(KernelBuilder& b, ExprId x) {
  const ExprId element = held(b, "element", x);
  return {b.real(1.0, b.type_of(x)), element, b.sub(element, element)};
}

ExprId sum_of_pair(KernelBuilder& b, ExprId max, ExprId sum) {
  const ExprId nan = b.real(std::numeric_limits<double>::quiet_NaN(), b.type_of(sum));
  return b.select(b.apply(PointwiseFn::kIsFinite, {max}), sum, nan);
}

void emit_combine_of_equal_counts(KernelBuilder& b, std::span<const VarId> accumulators,
                                  std::span<const ExprId> others, int64_t count) {
  const ExprId mean = b.ref(accumulators[1]);
  const DType type = b.type_of(mean);
  const ExprId half = b.real(0.5, type);
  const ExprId other_mean = held(b, "other_mean", others[1]);
  const ExprId half_delta =
      b.ref(b.declare("half_delta", b.sub(b.mul(other_mean, half), b.mul(mean, half))));
  const ExprId of_count = b.real(static_cast<double>(count), type);
  const ExprId between = b.mul(b.mul(half_delta, of_count), b.add(half_delta, half_delta));
  // The difference from an infinite mean is NaN if the other mean is the same infinity.
  const ExprId merged = b.select(b.apply(PointwiseFn::kIsFinite, {mean}), b.add(mean, half_delta),
                                 b.add(mean, other_mean));
  b.assign(accumulators[2], b.add(b.add(b.ref(accumulators[2]), others[2]), between));
  b.assign(accumulators[1], merged);
  b.assign(accumulators[0], b.add(of_count, of_count));
}

void emit_combine(KernelBuilder& b, Combiner combiner, std::span<const VarId> accumulators,
                  std::span<const ExprId> others) {
  SINTER_CHECK_OP(static_cast<int64_t>(accumulators.size()), ==,
                  std::ssize(traits_of(combiner).components));
  SINTER_CHECK_OP(accumulators.size(), ==, others.size());
  const ReductionTraits& traits = traits_of(combiner);
  switch (traits.tuple) {
    case TupleKind::kIndependent:
      return combine_independent(b, traits.components, accumulators, others);
    case TupleKind::kPlace:
      return combine_arg_extreme(
          b, traits.first_pass == Reduction::kMax ? PointwiseFn::kGt : PointwiseFn::kLt,
          accumulators, others);
    case TupleKind::kMoments:
      return combine_welford(b, accumulators, others);
    case TupleKind::kScaledSum:
      return combine_log_sum_exp(b, accumulators, others);
  }
  unreachable();
}

}  // namespace sinter::kir
