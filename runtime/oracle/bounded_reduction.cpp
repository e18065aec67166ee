#include "runtime/oracle/bounded_reduction.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "fusion_ir/error.h"
#include "fusion_ir/reduction_traits.h"
#include "runtime/oracle/error_model.h"
#include "runtime/oracle/integer_range.h"

namespace sinter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using ArrayView = Eigen::Map<const Eigen::ArrayXd>;

ArrayView view_of(std::span<const double> numbers) {
  return {numbers.data(), static_cast<Eigen::Index>(numbers.size())};
}

double bound_at(std::span<const double> bounds, size_t i) {
  return bounds.empty() ? 0.0 : bounds[i];
}
/// Sum over a row of what `part` is of some of its elements: of the whole periods and of the rest.
template <class Part>
double sum_over(const RealRow& row, Part part) {
  const auto period = static_cast<int64_t>(row.values.size());
  const double all = part(period);
  if (row.length == period) return all;
  const int64_t rest = row.length % period;
  return static_cast<double>(row.length / period) * all + (rest > 0 ? part(rest) : 0.0);
}
double total_bound(std::span<const double> bounds) {
  return bounds.empty() ? 0.0 : view_of(bounds).sum();
}
bool any_unknown(std::span<const double> bounds) {
  return !bounds.empty() && (view_of(bounds) == kUnbounded).any();
}

/// Which numbers of a row are not finite.
struct Specials {
  bool nan = false;
  bool plus = false;  ///< An infinity of this sign.
  bool minus = false;
  [[nodiscard]] bool infinite() const { return plus || minus; }
};
Specials specials_of(std::span<const double> values) {
  const ArrayView x = view_of(values);
  if (x.isFinite().all()) return {};
  return {.nan = x.isNaN().any(), .plus = (x == kInfinity).any(), .minus = (x == -kInfinity).any()};
}

/// Whether no element can differ from the first on the device.
bool is_constant(const RealRow& row) {
  if (row.is_uniform) return true;
  const ArrayView x = view_of(row.values);
  return row.bounds.empty() ? (x == x[0]).all()
                            : (x == x[0]).all() && (view_of(row.bounds) == 0.0).all();
}

/// How many roundings of a sum over a row are independent, as `period` of accumulation_error().
///
/// While a partial sum keeps its exponent, equal addends round alike, so that m of them err m times
/// as far as one. If each of n elements is equal to n p others, p being the share of equal ones
/// among all pairs, the sum errs like one of n / (1 + n p) different elements, each so many times.
/// A sample of 2 sqrt(n) elements, of few all, shows any p above a few times 1 / n. Zeros add no
/// error.
int64_t independent_elements(const ArrayView& x) {
  const auto n = static_cast<int64_t>(x.size());
  constexpr int64_t kFew = 36;  // Fewer have worst cases below the probable ones.
  if (n <= kFew) return n;
  constexpr int64_t kSmallest = 64;
  const auto large = static_cast<int64_t>(2.0 * std::sqrt(static_cast<double>(n)));
  const int64_t size = std::min(std::max(large, kSmallest), n);
  std::vector<double> sample;
  for (int64_t i = 0; i < size; ++i) {
    const double element = x[i * n / size];
    if (element != 0.0 && std::isfinite(element)) sample.push_back(element);
  }
  std::ranges::sort(sample);
  double equal_pairs = 0.0;
  double run = 0.0;
  for (size_t i = 1; i < sample.size(); ++i) {
    run = sample[i] == sample[i - 1] ? run + 1.0 : 0.0;
    equal_pairs += run;
  }
  const double pairs = 0.5 * static_cast<double>(size) * static_cast<double>(size - 1);
  const double others = static_cast<double>(n - 1) * equal_pairs / pairs;
  return std::max<int64_t>(std::llround(static_cast<double>(n) / (1.0 + others)), 1);
}

/// accumulation_error of adding the elements of a row, and of `more` roundings.
double growth_of(DType type, const RealRow& row, int64_t more = 0) {
  const int64_t independent = independent_elements(view_of(row.values));
  const int64_t roundings = row.length + more;
  return accumulation_error(type, roundings, independent < row.length ? independent : roundings);
}

/// Elements that a thread adds up from one pivot, at most: it has 255 registers for them.
constexpr double kMostOfPivot = 256.0;

/// Error of adding c differences that are all near d, per growth of c roundings and their sum c d.
/// Partial sums are then k d: their roundings add up to u d c (c + 1) / 2 at most, a share of 1/2,
/// and where they are independent to u d sqrt(c^3 / 3), a share of 1 / sqrt(3).
constexpr double kLinearGrowth = 1.0 / std::numbers::sqrt3;

/// Bound on the error of a mean of n elements whose magnitudes have this mean, however it is found:
/// by two passes, from pivots, by Welford's update or Chan's merge; see welford_bounded(). `growth`
/// is the accumulation error of n roundings, and one for the division or the step; no element is
/// farther from the mean than `farthest`.
double mean_error(DType type, double n, double growth, double magnitude, double farthest) {
  // Welford's differences are scaled by powers of two, down to 1 / (4 n), before they are added:
  // those that underflow and what they differ from are each off by half the smallest subnormal
  // there. A merge adds as much.
  const double underflow = 5.0 * n * smallest_subnormal(type);
  const double from_pivot = kLinearGrowth * farthest;
  const double added = n <= kMostOfPivot ? std::max(magnitude, from_pivot)
                                         : magnitude + kMostOfPivot / n * from_pivot;
  return growth * added + 3.0 * rounding_unit(type) * (2.0 + std::log(n)) * magnitude + underflow;
}

/// How far a sum of numbers is off at most because their roundings are alike, though they are not.
///
/// What is added to a partial sum is rounded by what it has beyond the last place of that sum.
/// Where numbers are alike there, as those of 16 bits that have one number added are, each is
/// rounded to the same side. While partial sums lie between two powers of two, all of them together
/// are off by the sum of what is cut. Small partial sums cut little: the first are looked at for
/// which n times half of the last place could be more than a quarter of what is `known`.
double alike_roundings(DType type, const ArrayView& x, double magnitude, double known) {
  if (!(magnitude > 0.0) || !std::isfinite(magnitude)) return 0.0;
  const double share = 0.5 * static_cast<double>(x.size());
  double most = 0.0;
  for (double place = 2.0 * unit_roundoff(type) * std::ldexp(1.0, std::ilogb(magnitude));
       share * place > 0.25 * known && place > smallest_subnormal(type); place *= 0.5)
    most = std::max(most, std::fabs((x - (x / place).round() * place).sum()));
  return most;
}

/// Sum of x_i + e_i with e_i the operands' errors. Whatever the order, rounding costs at most
/// accumulation_error times the sum of magnitudes of what is really added, |x_i| + e_i.
///
/// An infinity decides the sum, unless finite elements overflow to the other one before they meet
/// it. Zeros add to zero, whatever rounds. A mean that is found without its sum is as if the sum
/// were n times as far off as the mean, even where the sum is exact; that of equal elements is one.
BoundedReal sum(DType type, const RealRow& row) {
  const ArrayView x = view_of(row.values);
  const double value = sum_over(row, [&](int64_t n) { return x.head(n).sum(); });
  if (any_unknown(row.bounds)) return {value, kUnbounded};
  const Specials specials = specials_of(row.values);
  if (specials.nan || (specials.plus && specials.minus)) return {kNan, 0.0};
  const double limit = overflow_threshold(type);
  if (specials.infinite()) {
    const double sign = specials.plus ? 1.0 : -1.0;
    // The finite elements that draw away from the infinity, with their errors and roundings.
    double against = 0.0;
    for (size_t i = 0; i < row.values.size(); ++i) {
      if (std::isinf(row.values[i])) continue;
      against += std::max(0.0, bound_at(row.bounds, i) - sign * row.values[i]);
    }
    against *= std::ceil(static_cast<double>(row.length) / static_cast<double>(row.values.size())) *
               (1.0 + accumulation_error(type, row.length));
    return {sign * kInfinity, against < limit && std::isfinite(against) ? 0.0 : kUnbounded};
  }
  const double propagated = row.bounds.empty() ? 0.0 : sum_over(row, [&](int64_t n) {
    return view_of(row.bounds).head(n).sum();
  });
  const double magnitude =
      sum_over(row, [&](int64_t n) { return x.head(n).abs().sum(); }) + propagated;
  // Integers whose sums all fit the mantissa add without rounding.
  const bool exact =
      propagated == 0.0 && magnitude * unit_roundoff(type) <= 1.0 && (x == x.floor()).all();
  double rounding = exact ? 0.0 : growth_of(type, row) * magnitude;
  if (!exact) {
    const double times = static_cast<double>(row.length) / static_cast<double>(x.size());
    const double worst = accumulation_error(type, row.length, 1) * magnitude;
    if (rounding < worst)
      rounding = std::min(
          worst, rounding + times * alike_roundings(type, x, magnitude / times, rounding / times));
  }
  if (row.is_of_mean && row.length > 0 && !is_constant(row)) {
    const auto n = static_cast<double>(row.length);
    const double growth = growth_of(type, row, 1);
    const double farthest = (x - value / n).abs().maxCoeff();
    rounding = std::max(rounding, n * mean_error(type, n, growth, magnitude / n, farthest));
  }
  const double bound = propagated + rounding;
  if (bound == 0.0) return {value, 0.0};
  // Partial sums may overflow in some orders even where the whole does not, or does to the other
  // side. With one sign they only grow.
  if (magnitude + bound >= limit || !std::isfinite(magnitude)) {
    const bool one_sign = std::fabs(value) + propagated >= magnitude * (1.0 - 0x1p-40);
    return one_sign && std::fabs(value) - bound >= limit ? settle(type, {value, bound})
                                                         : BoundedReal{value, kUnbounded};
  }
  return {value, bound};
}

/// A positive number that neither overflows nor underflows: fraction x 2^exponent.
struct Scaled {
  double fraction = 1.0;  ///< Below 1, from 1/2 on, once multiplied; or what is not finite, or 0.
  int64_t exponent = 0;

  Scaled& operator*=(double factor) {
    int by_fraction = 0;
    int by_factor = 0;
    fraction = std::frexp(fraction * std::frexp(factor, &by_factor), &by_fraction);
    exponent += by_fraction + by_factor;
    return *this;
  }
  /// Whether it is `limit` times a factor near 1, or more.
  [[nodiscard]] bool exceeds(double limit, double factor) const {
    int of_limit = std::numeric_limits<double>::max_exponent + 1;
    const double with = (std::isinf(limit) ? 0.5 : std::frexp(limit, &of_limit)) * factor;
    const int64_t apart = std::clamp<int64_t>(exponent - of_limit, -4, 4);
    return std::ldexp(fraction, static_cast<int>(apart)) >= with;
  }
};

/// Product of x_i + e_i: its distance from the product of x_i is largest when all errors point
/// outwards, prod(|x_i| + e_i) - prod|x_i|, and every multiplication adds a relative error u.
BoundedReal product(DType type, RealRow row) {
  double value = 1.0;
  double outward = 1.0;   // prod(|x_i| + e_i)
  double largest = 1.0;   // prod(max(|x_i| + e_i, 1)): no partial product is larger
  double smallest = 1.0;  // prod(min(|x_i|, 1)) over x_i != 0: none that matters is smaller
  Scaled magnitude;       // prod |x_i|, where doubles would overflow on the way
  for (size_t i = 0; i < row.values.size(); ++i) {
    const double reach = std::fabs(row.values[i]) + bound_at(row.bounds, i);
    value *= row.values[i];
    magnitude *= std::fabs(row.values[i]);
    outward *= reach;
    largest *= std::max(reach, 1.0);
    if (row.values[i] != 0.0) smallest *= std::min(std::fabs(row.values[i]), 1.0);
  }
  if (any_unknown(row.bounds)) return {value, kUnbounded};
  const double normal = smallest_subnormal(type) / (2.0 * unit_roundoff(type));
  const bool underflows = smallest < normal;
  const Specials specials = specials_of(row.values);
  const bool has_zero = (view_of(row.values) == 0.0).any();
  const bool inexact = total_bound(row.bounds) > 0.0;
  if (specials.nan) return {kNan, 0.0};
  if (specials.infinite()) {
    // A zero makes it NaN, and so may a partial product that underflows to one.
    if (has_zero && !inexact) return {kNan, 0.0};
    return {value, has_zero || underflows || inexact ? kUnbounded : 0.0};
  }
  // An infinity and a zero that partial products may become would meet as NaN.
  if (!(largest < overflow_threshold(type))) {
    const bool may_vanish = underflows || has_zero || inexact;
    const bool every_order =
        !may_vanish &&
        magnitude.exceeds(overflow_threshold(type), 1.0 + accumulation_error(type, 1 + row.length));
    return every_order ? settle(type, {std::copysign(kInfinity, value), 0.0})
                       : BoundedReal{value, kUnbounded};
  }
  const auto n = static_cast<int64_t>(row.values.size());
  const double growth = growth_of(type, row);
  // A partial product below the normal range is off by half the smallest subnormal, which later
  // factors can enlarge.
  const double lost =
      underflows ? static_cast<double>(n) * smallest_subnormal(type) * largest : 0.0;
  return settle(type, {value, outward - std::fabs(value) + growth * outward + lost});
}

/// max or min. The device's result is one of its operands, so the bound is the largest one of those
/// elements that may be extreme.
BoundedReal extreme(ReduceFn fn, RealRow row) {
  const double sign = fn == ReduceFn::kMax ? 1.0 : -1.0;
  double value = -kInfinity;  // of sign * x
  for (const double x : row.values) {
    if (std::isnan(x)) value = kNan;
    if (sign * x > value) value = sign * x;
  }
  if (any_unknown(row.bounds)) return {sign * value, kUnbounded};
  if (std::isnan(value) || row.bounds.empty()) return {sign * value, 0.0};
  double certain = -kInfinity;  // what the device's result reaches at least
  for (size_t i = 0; i < row.values.size(); ++i) {
    certain = std::max(certain, sign * row.values[i] - row.bounds[i]);
  }
  double bound = 0.0;
  for (size_t i = 0; i < row.values.size(); ++i) {
    if (sign * row.values[i] + row.bounds[i] >= certain) bound = std::max(bound, row.bounds[i]);
  }
  return {sign * value, bound};
}

int64_t integer_identity(const ReductionTraits& traits, DType type) {
  switch (traits.components[0].identity) {
    case Identity::kZero:
      return 0;
    case Identity::kOne:
      return 1;
    case Identity::kLowest:
      return lowest_integer(type);
    case Identity::kHighest:
      return highest_integer(type);
  }
  unreachable();
}

template <class Row>
BoundedInteger find_extreme(ReduceFn fn, Row row) {
  if (row.values.empty()) return {0, 0.0};
  using Element = std::remove_cvref_t<decltype(row.values[0])>;
  const auto is_nan = [](Element x) { return x != x; };
  const auto beats = [fn, is_nan](Element challenger, Element holder) {
    if (is_nan(holder)) return false;
    if (is_nan(challenger)) return true;
    return fn == ReduceFn::kArgMax ? challenger > holder : challenger < holder;
  };
  size_t best = 0;
  for (size_t i = 1; i < row.values.size(); ++i) {
    if (beats(row.values[i], row.values[best])) best = i;
  }
  if (row.bounds.empty()) return {static_cast<int64_t>(best), 0.0};
  const double sign = fn == ReduceFn::kArgMax ? 1.0 : -1.0;
  const auto value = [&](size_t i) { return sign * static_cast<double>(row.values[i]); };
  const double certain = value(best) - row.bounds[best];  // NaN: only an unknown can precede it
  double reach = 0.0;
  for (size_t i = 0; i < row.values.size(); ++i) {
    if (i == best) continue;
    const bool exact_tie = row.bounds[i] == 0.0 && row.bounds[best] == 0.0;
    const bool may_win = std::isinf(row.bounds[i]) || std::isinf(row.bounds[best]) ||
                         (!exact_tie && value(i) + row.bounds[i] >= certain);
    if (may_win)
      reach = std::max(reach, std::fabs(static_cast<double>(i) - static_cast<double>(best)));
  }
  return {static_cast<int64_t>(best), reach};
}

}  // namespace

BoundedReal reduce_bounded(ReduceFn fn, DType type, RealRow row) {
  switch (fn) {
    case ReduceFn::kSum:
      return sum(type, row);
    case ReduceFn::kProd:
      return product(type, row);
    case ReduceFn::kMax:
    case ReduceFn::kMin:
      return extreme(fn, row);
    case ReduceFn::kAny:
    case ReduceFn::kAll:
    case ReduceFn::kArgMax:
    case ReduceFn::kArgMin:
      break;
  }
  unreachable();
}

BoundedInteger reduce_bounded(ReduceFn fn, DType type, IntegerRow row) {
  const ReductionTraits& traits = traits_of(reduction_of(fn));
  BoundedInteger result{integer_identity(traits, type), 0.0};
  for (size_t i = 0; i < row.values.size(); ++i) {
    result = bounded_integer(traits.components[0].combine.value(), type, result,
                             {row.values[i], bound_at(row.bounds, i)});
  }
  return result;
}

BoundedReal reduce_bounded(const ReductionComponent& component, DType type, RealRow row) {
  const ReduceFn fn = reduction_by(component);
  if (!component.element) return reduce_bounded(fn, type, row);
  std::vector<double> values;
  std::vector<double> bounds;
  for (size_t i = 0; i < row.values.size(); ++i) {
    const BoundedReal x{row.values[i], bound_at(row.bounds, i)};
    const BoundedReal y = bounded_real(*component.element, type, x, x, x);
    values.push_back(y.value);
    // A product that overflows may be contracted with an addition that brings it back.
    const bool is_open = std::isinf(y.value) && std::isfinite(x.value);
    bounds.push_back(is_open ? kUnbounded : y.bound);
  }
  RealRow mapped = row;
  mapped.values = values;
  mapped.bounds = bounds;
  // Contracted with the additions, the terms are no numbers of the device.
  mapped.is_uniform = false;
  return reduce_bounded(fn, type, mapped);
}

BoundedInteger reduce_bounded(const ReductionComponent& component, DType type, IntegerRow row) {
  const ReduceFn fn = reduction_by(component);
  if (!component.element) return reduce_bounded(fn, type, row);
  std::vector<int64_t> values;
  std::vector<double> bounds;
  for (size_t i = 0; i < row.values.size(); ++i) {
    const BoundedInteger x{row.values[i], bound_at(row.bounds, i)};
    const BoundedInteger y = bounded_integer(*component.element, type, x, x, x);
    values.push_back(y.value);
    bounds.push_back(y.bound);
  }
  return reduce_bounded(fn, type, {values, bounds});
}

BoundedInteger index_of_extreme(ReduceFn fn, RealRow row) { return find_extreme(fn, row); }
BoundedInteger index_of_extreme(ReduceFn fn, IntegerRow row) { return find_extreme(fn, row); }

// Notation: n elements, mean m, M = m2 = sum (x_i - m)^2, u the rounding unit, g = the accumulation
// error of n roundings, e_i the operands' errors.
//
// Mean. Two passes: g * mean|x|, and u for the division. Welford's update rounds the running mean
// m_k (u |m_k|) and the step d_k / k (3u |d_k| / k); an error made at step k reaches the result
// with weight k/n. As k |m_k| <= sum |x|, the first kind sums to g * mean|x|. As |d_k| <= |x_k| +
// |m_{k-1}| and the sum of |m_{k-1}| is at most n mean|x| (1 + ln n), the second is at most
// 3u (2 + ln n) mean|x|. Chan's merge is the same recurrence on fewer, larger steps. From a pivot
// p, an element or a mean of some, c elements are off by g * mean|x - p|. That is largest
// for the element that is farthest from their mean: then all differences are near max|x - m|, and
// their partial sums grow linearly. Other pivots of a longer row are nearer.
//
// M. Each term is a product of two differences: 4u M, and adding them costs g M. An error s_j of
// the running mean at step j changes later terms by sum_{k>j} 2 d_k (j/k) s_j, where by
// Cauchy-Schwarz |sum_{k>j} d_k j/k| <= sqrt(2M) sqrt(j) (Welford's terms are d_k^2 (k-1)/k, so sum
// d_k^2 <= 2M).
//   - s_j = u |m_j|: since |m_j| <= |m| + sqrt(M / j), the squares sum to
//     8 M sum_j j (|m| + sqrt(M/j))^2 <= 8 M n (n m^2 + 2 M), and independent roundings add as the
//     root of their squares, so the total is 2 sqrt(2) g sqrt(M (n m^2 + 2 M)). In the worst case
//     they add up linearly, which the worst-case g covers in the same way.
//   - A sum of squares from a pivot is off by g (M + n (m - p)^2) where it is moved to the mean, p
//     being the mean of an element of each thread. |m - p| <= max|d|, which one outlier in t
//     threads takes p but a t-th of: n / t^2 max|d|^2, n / t being c at most and t at least 2,
//     beyond some elements that one thread has.
//   - s_j = 3u |d_j| / j: at most 6 sqrt(2) u sqrt(M) sqrt(2M) sqrt(1 + ln n) = 12 u M sqrt(1 + ln
//   n).
// A wrong mean costs n times its square besides. The operands' errors move M by 2 sum |x_i - m| e_i
// + sum e_i^2; their mean drops out because sum (x_i - m) = 0.
//
// Equal elements give their value and 0, by fusion_ir/op.h.
//
// Overflow. The mean does not overflow: differences and their sums are scaled where the elements
// are so far apart that they would. A merge weighs the square of a step by n_a n_b / (n_a + n_b) >=
// 1/2, so that no square is above 2 M.
BoundedPair welford_bounded(DType type, RealRow row) {
  if (row.values.empty()) return {};
  const ArrayView x = view_of(row.values);
  const auto n = static_cast<double>(row.values.size());
  const Specials specials = specials_of(row.values);
  const double total = x.sum();
  // A sum of f64 may overflow where the mean does not.
  const double mean = std::isinf(total) && !specials.infinite() ? (x / n).sum() : total / n;
  if (any_unknown(row.bounds)) return {{mean, kUnbounded}, {kNan, kUnbounded}};
  if (specials.nan || (specials.plus && specials.minus)) return {{kNan, 0.0}, {kNan, 0.0}};
  if (specials.infinite()) {
    // Two passes give the infinity, whatever the others sum up to; an update after it gives
    // inf - inf. The deviations are NaN anyhow.
    return {{specials.plus ? kInfinity : -kInfinity, kUnbounded}, {kNan, 0.0}};
  }
  if (is_constant(row)) return {{x[0], bound_at(row.bounds, 0)}, {0.0, 0.0}};
  const double u = rounding_unit(type);
  // One more rounding than the sums have, for the division or the step.
  const double growth = growth_of(type, row, 1);
  const double log_n = std::log(n);
  const double propagated = total_bound(row.bounds) / n;
  const double magnitude = x.abs().sum() / n + propagated;
  const Eigen::ArrayXd deviation = x - mean;
  const double farthest = deviation.abs().maxCoeff();
  const double mean_bound = propagated + mean_error(type, n, growth, magnitude, farthest);
  // Squares of steps that underflow are off by less than the smallest subnormal, and are weighted
  // with up to n.
  const double underflow = smallest_subnormal(type);

  const double m2 = deviation.square().sum();
  double m2_propagated = 0.0;
  if (!row.bounds.empty()) {
    const ArrayView e = view_of(row.bounds);
    m2_propagated = (2.0 * deviation.abs() * e + e.square()).sum();
  }
  const double actual = m2 + m2_propagated;
  const double center = std::fabs(mean) + propagated;
  const double rounding =
      (growth + 4.0 * u + 12.0 * u * std::sqrt(1.0 + log_n)) * actual +
      2.0 * std::sqrt(2.0) * growth * std::sqrt(actual * (n * center * center + 2.0 * actual)) +
      n * std::pow(mean_bound - propagated, 2.0) +
      growth * std::min(n, 16.0 + std::min(0.25 * n, 0.5 * kMostOfPivot)) * farthest * farthest +
      n * underflow * (4.0 * n + 2.0 * deviation.abs().sum());
  const double limit = overflow_threshold(type);
  const double squares = m2 + m2_propagated + rounding;
  const BoundedReal sum_of_squares{m2,
                                   2.0 * squares < limit ? m2_propagated + rounding : kUnbounded};
  return {settle(type, {mean, mean_bound}), settle(type, sum_of_squares)};
}

namespace {

/// Largest |t| exp(t) for t in [low, high]: it rises to 1/e at -1, falls to 0 and rises again.
double largest_scaled_exponential(double low, double high) {
  const auto at = [](double t) { return t < -1e3 ? 0.0 : std::fabs(t) * std::exp(t); };
  if (high <= -1.0) return at(high);
  return std::max(at(std::max(low, -1.0)), high > 0.0 ? at(high) : 0.0);
}

}  // namespace

// With d_i = x_i - m <= 0, term t_i = exp(d_i) is off by
//   - the operands: e_i, and e_m of the maximum, move the exponent within [d_i - e, d_i + e], where
//     it stays <= 0, since the maximum is that of what the device holds; where x_i is a product
//     that is contracted with the subtraction, by as much above 0 as the product would round;
//   - the subtraction, which rounds by u |d_i|. Online, the exponent is reached in steps x_i - m_1,
//     m_1 - m_2, ...: all have one sign and sum to d_i, so their roundings sum to u |d_i| as well,
//     and so do the parts of exp's error that grow with its operand;
//   - exp itself once, and once more with a multiplication for every rescaling that the term
//   passes.
// Adding n terms costs accumulation_error of their sum, and each may underflow. No partial sum is
// above n, so nothing overflows; a step that does is -inf, whose exponential is 0 either way.
BoundedPair logsumexp_bounded(DType type, RealRow row) {
  const BoundedReal max = extreme(ReduceFn::kMax, row);
  if (row.values.empty()) return {max, {0.0, 0.0}};
  const auto n = static_cast<int64_t>(row.values.size());
  const double u = rounding_unit(type);
  const double fixed = exp_relative_error(type, 0.0);
  const double per_unit = u + exp_relative_error(type, 1.0) - fixed;
  double value = 0.0;
  double bound = 0.0;
  for (size_t i = 0; i < row.values.size(); ++i) {
    const double exponent = row.values[i] - max.value;
    const double term = std::exp(exponent);
    value += term;
    if (std::isinf(exponent) && !std::isinf(row.bounds.empty() ? 0.0 : row.bounds[i]))
      continue;  // exp(-inf) is 0 for certain
    const double shift = row.is_uniform ? 0.0 : bound_at(row.bounds, i) + max.bound;
    const double low = exponent - shift;
    const double own = bound_at(row.bounds, i);
    const double contracted = std::min(own, arithmetic_error(type, std::fabs(row.values[i]) + own));
    const double high = std::min(exponent + shift, contracted);
    const double reach = std::exp(high);
    bound += std::max(reach - term, term - std::exp(low)) + fixed * reach +
             per_unit * largest_scaled_exponential(low, high) + exp_underflow(type);
  }
  if (std::isinf(max.bound)) return {max, {value, kUnbounded}};
  if (std::isnan(value)) return {max, {value, 0.0}};
  const double per_rescaling = exp_relative_error(type, 0.0) + u;
  bound += (growth_of(type, row) + rescale_chain(n) * per_rescaling) * (value + bound);
  return {max, settle(type, {value, bound})};
}

}  // namespace sinter
