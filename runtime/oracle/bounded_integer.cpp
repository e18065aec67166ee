#include "runtime/oracle/bounded_integer.h"

#include <algorithm>
#include <cmath>

#include "fusion_ir/error.h"
#include "runtime/oracle/error_model.h"
#include "runtime/oracle/integer_range.h"

namespace sinter {
namespace {

double low_end(BoundedInteger x) { return static_cast<double>(x.value) - x.bound; }
double high_end(BoundedInteger x) { return static_cast<double>(x.value) + x.bound; }

bool disjoint(BoundedInteger a, BoundedInteger b) {
  return high_end(a) < low_end(b) || high_end(b) < low_end(a);
}

/// Bound of a result that is 0 or 1.
double truth_bound(bool certain) { return certain ? 0.0 : 1.0; }

/// Bound of the unwrapped result of integer arithmetic whose operands are uncertain.
double arithmetic_bound(PointwiseFn fn, BoundedInteger a, BoundedInteger b) {
  const double left = std::fabs(static_cast<double>(a.value));
  const double right = std::fabs(static_cast<double>(b.value));
  if (fn == PointwiseFn::kMul) return left * b.bound + right * a.bound + a.bound * b.bound;
  return a.bound + b.bound;
}

/// Value of integer arithmetic without wrap-around, to the accuracy of double.
double unwrapped(PointwiseFn fn, BoundedInteger a, BoundedInteger b) {
  return evaluate(fn, static_cast<double>(a.value), static_cast<double>(b.value));
}

}  // namespace

BoundedInteger settle_integer(DType type, BoundedInteger x) {
  const bool inside = low_end(x) >= static_cast<double>(lowest_integer(type)) &&
                      high_end(x) <= static_cast<double>(highest_integer(type));
  return {x.value, x.bound == 0.0 || inside ? x.bound : kUnbounded};
}

BoundedInteger select_bounded(BoundedInteger condition, BoundedInteger a, BoundedInteger b) {
  const BoundedInteger chosen = condition.value != 0 ? a : b;
  if (condition.bound == 0.0) return chosen;
  const BoundedInteger other = condition.value != 0 ? b : a;
  const double distance =
      std::fabs(static_cast<double>(chosen.value) - static_cast<double>(other.value));
  return {chosen.value, std::max(chosen.bound, distance + other.bound)};
}

BoundedInteger bounded_integer(PointwiseFn fn, DType type, BoundedInteger a, BoundedInteger b,
                               BoundedInteger c) {
  const int arity = info_of(fn).arity;
  const int64_t value = evaluate_integer(fn, type, a.value, b.value, c.value);
  const double widest = std::max({a.bound, arity > 1 ? b.bound : 0.0, arity > 2 ? c.bound : 0.0});
  if (widest == 0.0) return {value, 0.0};
  switch (fn) {
    case PointwiseFn::kNeg:
    case PointwiseFn::kAbs:
      return settle_integer(type, {value, widest});
    case PointwiseFn::kMax:
    case PointwiseFn::kMin:
    case PointwiseFn::kClamp:
      return {value, widest};
    case PointwiseFn::kAdd:
    case PointwiseFn::kSub:
    case PointwiseFn::kMul: {
      const double bound = arithmetic_bound(fn, a, b);
      const double reach = std::fabs(unwrapped(fn, a, b)) + bound;
      return {value, reach < static_cast<double>(highest_integer(type)) ? bound : kUnbounded};
    }
    case PointwiseFn::kDiv:
      // Truncation is monotone and shifts by less than one; a divisor that may be zero has no
      // bound.
      if (b.bound > 0.0 || b.value == 0) return {value, kUnbounded};
      return settle_integer(type, {value, a.bound / std::fabs(static_cast<double>(b.value)) + 1.0});
    case PointwiseFn::kEq:
    case PointwiseFn::kNe:
      return {value, truth_bound(disjoint(a, b))};
    case PointwiseFn::kLt:
    case PointwiseFn::kGe:
      return {value, truth_bound(high_end(a) < low_end(b) || low_end(a) >= high_end(b))};
    case PointwiseFn::kLe:
    case PointwiseFn::kGt:
      return {value, truth_bound(high_end(a) <= low_end(b) || low_end(a) > high_end(b))};
    case PointwiseFn::kNot:
      return {value, type == DType::kBool ? 1.0 : settle_integer(type, {value, widest}).bound};
    case PointwiseFn::kAnd:
    case PointwiseFn::kOr: {
      if (type != DType::kBool) return {value, kUnbounded};
      // A certain false decides `and`, a certain true decides `or`.
      const int64_t deciding = fn == PointwiseFn::kAnd ? 0 : 1;
      const bool decided =
          (a.bound == 0.0 && a.value == deciding) || (b.bound == 0.0 && b.value == deciding);
      return {value, truth_bound(decided)};
    }
    case PointwiseFn::kXor:
      return {value, type == DType::kBool ? 1.0 : kUnbounded};
    case PointwiseFn::kRem:
      return {value, kUnbounded};
    default:
      break;
  }
  unreachable();
}

}  // namespace sinter
