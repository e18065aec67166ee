#pragma once

#include <array>

#include "fusion_ir/op.h"
#include "runtime/oracle/bounded_integer.h"

namespace sinter {

/// A real value and how far the device's may lie from it. A NaN or infinite value with a finite
/// bound is certain: the device has exactly it. An infinite bound says that nothing is known, as
/// where an interval meets a pole or the limit of the type. A bound of zero says that the device
/// holds this very number, which is then representable in its type.
struct BoundedReal {
  double value = 0.0;
  double bound = 0.0;
};

/// Reals at even distances in memory. `bounds` is null where all are exact.
struct RealRun {
  const double* values = nullptr;
  const double* bounds = nullptr;
  int64_t step = 1;
  BoundedReal operator[](int64_t i) const {
    return {values[i * step], bounds == nullptr ? 0.0 : bounds[i * step]};
  }
};

/// Distance between two possible device values: zero when both are NaN or the same infinity,
/// infinite when only one is.
double spread(double a, double b);

/// Turns what left the range of the type into a certain infinity, or into an unknown where the
/// bound straddles the limit. A NaN bound becomes infinite.
BoundedReal settle(DType type, BoundedReal x);

/// A pointwise function from reals to a real, computed in `type` (f64 or f32).
BoundedReal bounded_real(PointwiseFn fn, DType type, BoundedReal a, BoundedReal b = {},
                         BoundedReal c = {});
/// The same for `count` elements, in a fraction of the time of as many calls. Writes every value,
/// but no bound of zero; returns true if there is another. Operands that the function does not have
/// must be readable.
bool bounded_reals(PointwiseFn fn, DType type, const std::array<RealRun, 3>& operands,
                   int64_t count, double* values, double* bounds);
/// A comparison or test of reals: a certain bool, or one of bound 1 where the intervals overlap.
BoundedInteger evaluate_test(PointwiseFn fn, BoundedReal a, BoundedReal b = {});
/// A kRandom function of integers: certain where both are, since nothing rounds.
BoundedReal random_bounded(PointwiseFn fn, BoundedInteger a, BoundedInteger b);
/// select(condition, a, b); any float type.
BoundedReal select_bounded(BoundedInteger condition, BoundedReal a, BoundedReal b);

}  // namespace sinter
