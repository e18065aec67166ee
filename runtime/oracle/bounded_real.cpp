#include "runtime/oracle/bounded_real.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fusion_ir/error.h"
#include "runtime/oracle/error_model.h"

// Rules that a large part of a graph consists of are inlined into the loops of bounded_reals, where
// function and type are constants.
#define SINTER_INLINED [[gnu::always_inline]] inline

namespace sinter {
namespace {

bool unknown(BoundedReal x) { return std::isinf(x.bound); }
double low_end(BoundedReal x) { return x.value - x.bound; }
double high_end(BoundedReal x) { return x.value + x.bound; }
/// True if the sign of x is not known, or x may be zero though it is not known to be.
bool may_change_sign(BoundedReal x) { return x.bound > 0.0 && std::fabs(x.value) <= x.bound; }

/// Clips a result of the double function to the type's range, as the device's would be.
SINTER_INLINED double in_range(DType type, double value) {
  return std::fabs(value) >= overflow_threshold(type)
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : value;
}

/// settle(), inlined.
SINTER_INLINED BoundedReal settled(DType type, BoundedReal x) {
  if (std::isnan(x.bound)) return {x.value, kUnbounded};
  if (!std::isfinite(x.value) || unknown(x)) return x;
  const double limit = overflow_threshold(type);
  const double magnitude = std::fabs(x.value);
  if (magnitude - x.bound >= limit) return {in_range(type, x.value), 0.0};
  return {x.value, magnitude + x.bound >= limit ? kUnbounded : x.bound};
}

/// Result of a function that rounds once, given the error that its operands bring. Where they bring
/// none, add, sub, mul and fma give the device this very number if the type can hold it, contracted
/// or not.
SINTER_INLINED BoundedReal rounded(DType type, double value, double propagated) {
  const bool representable =
      type == DType::kF64 || static_cast<double>(static_cast<float>(value)) == value;
  if (propagated == 0.0 && representable && !std::isnan(value)) return {value, 0.0};
  const double local = arithmetic_error(type, std::fabs(value) + propagated);
  return settled(type, {value, propagated + local});
}

SINTER_INLINED BoundedReal add(DType type, BoundedReal a, BoundedReal b) {
  const double value = a.value + b.value;
  if (!std::isfinite(a.value) || !std::isfinite(b.value)) return {value, 0.0};
  return rounded(type, value, a.bound + b.bound);
}

/// a * b before it is rounded.
SINTER_INLINED BoundedReal exact_product(BoundedReal a, BoundedReal b) {
  const double value = a.value * b.value;
  if (std::isnan(a.value) || std::isnan(b.value)) return {value, 0.0};
  if (std::isinf(a.value) || std::isinf(b.value)) {
    return {value, may_change_sign(a) || may_change_sign(b) ? kUnbounded : 0.0};
  }
  return {value, std::fabs(a.value) * b.bound + std::fabs(b.value) * a.bound + a.bound * b.bound};
}

SINTER_INLINED BoundedReal multiply(DType type, BoundedReal a, BoundedReal b) {
  const BoundedReal product = exact_product(a, b);
  if (unknown(product) || !std::isfinite(a.value) || !std::isfinite(b.value)) return product;
  return rounded(type, product.value, product.bound);
}

SINTER_INLINED BoundedReal multiply_add(DType type, BoundedReal a, BoundedReal b, BoundedReal c) {
  const BoundedReal product = exact_product(a, b);
  if (unknown(product)) return {product.value + c.value, kUnbounded};
  if (std::isinf(product.value) && std::isfinite(a.value) && std::isfinite(b.value)) {
    return {std::fma(a.value, b.value, c.value), kUnbounded};  // Only in f64.
  }
  if (!std::isfinite(product.value) || !std::isfinite(c.value)) {
    return {product.value + c.value, 0.0};
  }
  const double value = std::fma(a.value, b.value, c.value);
  return rounded(type, value, product.bound + c.bound);
}

BoundedReal divide(PointwiseFn fn, DType type, BoundedReal a, BoundedReal b) {
  const double value = a.value / b.value;
  if (std::isnan(a.value) || std::isnan(b.value)) return {value, 0.0};
  if (std::isinf(b.value)) return {value, 0.0};
  if (may_change_sign(b)) return {value, kUnbounded};
  if (std::isinf(a.value)) return {value, 0.0};
  if (b.value == 0.0) return {value, may_change_sign(a) ? kUnbounded : 0.0};
  const double propagated = (a.bound + std::fabs(value) * b.bound) / (std::fabs(b.value) - b.bound);
  const double local = function_error(fn, type, 0.0, std::fabs(value) + propagated);
  return settle(type, {value, propagated + local});
}

/// fmod is exact, so only the operands' errors count: within one period it moves with them, across
/// periods it can be anywhere in (-|b|, |b|).
BoundedReal remainder(BoundedReal a, BoundedReal b) {
  const double value = evaluate(PointwiseFn::kRem, a.value, b.value);
  if (a.bound == 0.0 && b.bound == 0.0) return {value, 0.0};
  if (std::isnan(a.value) || std::isnan(b.value)) return {value, 0.0};
  if (std::isinf(a.value)) return {value, may_change_sign(b) ? kUnbounded : 0.0};
  if (may_change_sign(b) || b.value == 0.0) return {value, b.bound == 0.0 ? 0.0 : kUnbounded};
  return {value, 2.0 * (std::fabs(b.value) + b.bound)};
}

/// max or min. The device's result is one of the operands; only one that may win can be it.
BoundedReal extreme(PointwiseFn fn, BoundedReal a, BoundedReal b) {
  const double value = evaluate(fn, a.value, b.value);
  if (std::isnan(value)) return {value, 0.0};
  const double sign = fn == PointwiseFn::kMax ? 1.0 : -1.0;
  const auto beaten_by = [sign](BoundedReal loser, BoundedReal winner) {
    return sign * loser.value + loser.bound < sign * winner.value - winner.bound;
  };
  if (beaten_by(a, b)) return {value, b.bound};
  if (beaten_by(b, a)) return {value, a.bound};
  return {value, std::max(a.bound, b.bound)};
}

/// A function that rises or falls over its whole domain: its extremes lie at the interval's ends.
BoundedReal monotone(PointwiseFn fn, DType type, BoundedReal x) {
  const double value = evaluate(fn, x.value);
  double propagated = 0.0;
  if (x.bound > 0.0) {
    const double clipped = in_range(type, value);
    propagated = std::max(spread(clipped, in_range(type, evaluate(fn, low_end(x)))),
                          spread(clipped, in_range(type, evaluate(fn, high_end(x)))));
  }
  const double local = function_error(fn, type, x.value, std::fabs(value) + propagated);
  return settle(type, {value, propagated + local});
}

/// sin and cos move no faster than their operand and by no more than 2.
BoundedReal periodic(PointwiseFn fn, DType type, BoundedReal x) {
  const double value = evaluate(fn, x.value);
  if (std::isnan(value)) return {value, 0.0};
  const double propagated = std::min(x.bound, 2.0);
  return {value, propagated + function_error(fn, type, x.value, std::fabs(value) + propagated)};
}

/// a^b is monotone in each operand where a > 0, so its extremes lie at the corners; for an exact
/// integer exponent >= 0 the corners and 0 bound it for any a.
BoundedReal power(DType type, BoundedReal a, BoundedReal b) {
  const auto corner = [&](double x, double y) {
    return in_range(type, evaluate(PointwiseFn::kPow, x, y));
  };
  const double value = corner(a.value, b.value);
  double propagated = 0.0;
  if (a.bound > 0.0 || b.bound > 0.0) {
    const bool polynomial = b.bound == 0.0 && b.value >= 0.0 && std::trunc(b.value) == b.value;
    if (low_end(a) <= 0.0 && !polynomial) return {value, kUnbounded};
    for (const double x : {low_end(a), high_end(a)}) {
      for (const double y : {low_end(b), high_end(b)}) {
        propagated = std::max(propagated, spread(value, corner(x, y)));
      }
    }
    if (may_change_sign(a)) propagated = std::max(propagated, spread(value, corner(0.0, b.value)));
    // 1 to the power of NaN and NaN to the power of 0 are 1, which no corner shows.
    if (std::fabs(a.value - 1.0) <= a.bound)
      propagated = std::max(propagated, spread(value, corner(1.0, b.value)));
    if (may_change_sign(b)) propagated = std::max(propagated, spread(value, corner(a.value, 0.0)));
  }
  const double local =
      function_error(PointwiseFn::kPow, type, a.value, std::fabs(value) + propagated);
  return settle(type, {value, propagated + local});
}

}  // namespace

double spread(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0.0;
  const double distance = std::fabs(a - b);
  return std::isnan(distance) ? kUnbounded : distance;
}

BoundedReal settle(DType type, BoundedReal x) { return settled(type, x); }

namespace {

SINTER_INLINED BoundedReal compute(PointwiseFn fn, DType type, int arity, BoundedReal a,
                                   BoundedReal b, BoundedReal c) {
  if (unknown(a) || (arity > 1 && unknown(b)) || (arity > 2 && unknown(c))) {
    return {evaluate(fn, a.value, b.value, c.value), kUnbounded};
  }
  switch (fn) {
    case PointwiseFn::kNeg:
    case PointwiseFn::kAbs:
      return {evaluate(fn, a.value), a.bound};
    case PointwiseFn::kExp:
    case PointwiseFn::kExp2:
    case PointwiseFn::kExpm1:
    case PointwiseFn::kLog:
    case PointwiseFn::kLog2:
    case PointwiseFn::kLog1p:
    case PointwiseFn::kSqrt:
    case PointwiseFn::kRsqrt:
    case PointwiseFn::kTanh:
    case PointwiseFn::kErf:
    case PointwiseFn::kFloor:
    case PointwiseFn::kCeil:
    case PointwiseFn::kTrunc:
    case PointwiseFn::kRound:
      return monotone(fn, type, a);
    case PointwiseFn::kSin:
    case PointwiseFn::kCos:
      return periodic(fn, type, a);
    case PointwiseFn::kReciprocal:
      return divide(fn, type, {1.0, 0.0}, a);
    case PointwiseFn::kAdd:
      return add(type, a, b);
    case PointwiseFn::kSub:
      return add(type, a, {-b.value, b.bound});
    case PointwiseFn::kMul:
      return multiply(type, a, b);
    case PointwiseFn::kFma:
      return multiply_add(type, a, b, c);
    case PointwiseFn::kDiv:
      return divide(fn, type, a, b);
    case PointwiseFn::kRem:
      return remainder(a, b);
    case PointwiseFn::kPow:
      return power(type, a, b);
    case PointwiseFn::kMax:
    case PointwiseFn::kMin:
      return extreme(fn, a, b);
    case PointwiseFn::kClamp:
      return extreme(PointwiseFn::kMin, extreme(PointwiseFn::kMax, a, b), c);
    case PointwiseFn::kIsNan:
    case PointwiseFn::kIsFinite:
    case PointwiseFn::kNot:
    case PointwiseFn::kAnd:
    case PointwiseFn::kOr:
    case PointwiseFn::kXor:
    case PointwiseFn::kEq:
    case PointwiseFn::kNe:
    case PointwiseFn::kLt:
    case PointwiseFn::kLe:
    case PointwiseFn::kGt:
    case PointwiseFn::kGe:
    case PointwiseFn::kSelect:
    case PointwiseFn::kPhiloxUniform:
      break;
  }
  unreachable();
}

template <PointwiseFn fn, DType type, int arity>
bool compute_run(const std::array<RealRun, 3>& operands, int64_t count, double* values,
                 double* bounds) {
  bool inexact = false;
  for (int64_t i = 0; i < count; ++i) {
    const BoundedReal result =
        compute(fn, type, arity, operands[0][i], arity > 1 ? operands[1][i] : BoundedReal{},
                arity > 2 ? operands[2][i] : BoundedReal{});
    values[i] = result.value;
    if (result.bound == 0.0) continue;
    bounds[i] = result.bound;
    inexact = true;
  }
  return inexact;
}

using ComputeRun = bool (*)(const std::array<RealRun, 3>&, int64_t, double*, double*);

/// The loop of a function that is worth one of its own; null for the others.
template <DType type>
ComputeRun loop_of(PointwiseFn fn) {
  switch (fn) {
    case PointwiseFn::kAdd:
      return compute_run<PointwiseFn::kAdd, type, 2>;
    case PointwiseFn::kSub:
      return compute_run<PointwiseFn::kSub, type, 2>;
    case PointwiseFn::kMul:
      return compute_run<PointwiseFn::kMul, type, 2>;
    case PointwiseFn::kFma:
      return compute_run<PointwiseFn::kFma, type, 3>;
    default:
      return nullptr;
  }
}

}  // namespace

BoundedReal bounded_real(PointwiseFn fn, DType type, BoundedReal a, BoundedReal b, BoundedReal c) {
  return compute(fn, type, info_of(fn).arity, a, b, c);
}

bool bounded_reals(PointwiseFn fn, DType type, const std::array<RealRun, 3>& operands,
                   int64_t count, double* values, double* bounds) {
  const ComputeRun loop = type == DType::kF64 ? loop_of<DType::kF64>(fn) : loop_of<DType::kF32>(fn);
  if (loop != nullptr) return loop(operands, count, values, bounds);
  bool inexact = false;
  for (int64_t i = 0; i < count; ++i) {
    const BoundedReal result =
        bounded_real(fn, type, operands[0][i], operands[1][i], operands[2][i]);
    values[i] = result.value;
    if (result.bound == 0.0) continue;
    bounds[i] = result.bound;
    inexact = true;
  }
  return inexact;
}

BoundedInteger evaluate_test(PointwiseFn fn, BoundedReal a, BoundedReal b) {
  const bool binary = info_of(fn).arity > 1;
  const auto value = static_cast<int64_t>(evaluate(fn, a.value, b.value));
  const auto answer = [value](bool certain) { return BoundedInteger{value, certain ? 0.0 : 1.0}; };
  if (unknown(a) || (binary && unknown(b))) return answer(false);
  if (!binary || std::isnan(a.value) || std::isnan(b.value)) return answer(true);
  const bool exact = a.bound == 0.0 && b.bound == 0.0;
  const bool below = high_end(a) < low_end(b);
  const bool above = low_end(a) > high_end(b);
  switch (fn) {
    case PointwiseFn::kEq:
    case PointwiseFn::kNe:
      return answer(exact || below || above);
    case PointwiseFn::kLt:
    case PointwiseFn::kGe:
      return answer(exact || below || low_end(a) >= high_end(b));
    case PointwiseFn::kLe:
    case PointwiseFn::kGt:
      return answer(exact || above || high_end(a) <= low_end(b));
    default:
      break;
  }
  unreachable();
}

BoundedReal random_bounded(PointwiseFn fn, BoundedInteger a, BoundedInteger b) {
  const double value = evaluate_random(fn, a.value, b.value);
  if (a.bound == 0.0 && b.bound == 0.0) return {value, 0.0};
  return {value, std::max(value, 1.0 - value)};  // Anywhere in [0, 1).
}

BoundedReal select_bounded(BoundedInteger condition, BoundedReal a, BoundedReal b) {
  const BoundedReal chosen = condition.value != 0 ? a : b;
  if (condition.bound == 0.0) return chosen;
  const BoundedReal other = condition.value != 0 ? b : a;
  return {chosen.value, std::max(chosen.bound, spread(chosen.value, other.value) + other.bound)};
}

}  // namespace sinter
