#pragma once

#include <cstdint>
#include <span>

#include "fusion_ir/op.h"
#include "fusion_ir/reduction_traits.h"
#include "runtime/oracle/bounded_integer.h"
#include "runtime/oracle/bounded_real.h"

namespace sinter {

/// The elements of one reduction, gathered. `bounds` is as long as `values`, or empty when all are
/// exact. Of a row that repeats, they are one period, and `length` counts all elements; the last
/// repeat may end early. Only sums, maxima and minima are taken of rows that repeat. The elements
/// of a uniform row are one number of the device, as those of a broadcast are. `is_of_mean` says of
/// a sum that a device may find its quotient by the number of elements without it, as Welford's
/// mean.
struct RealRow {
  std::span<const double> values;
  std::span<const double> bounds;
  int64_t length = static_cast<int64_t>(values.size());
  bool is_uniform = false;
  bool is_of_mean = false;
};
struct IntegerRow {
  std::span<const int64_t> values;
  std::span<const double> bounds;
};

// The bounds hold for any order of combination, sequential, pairwise or tree, in chunks or not:
// each derivation stands beside its function. Empty rows give the identities of fusion_ir/op.h.
//
// Where a partial result may overflow in one order and not in another, nothing is known. Whether it
// may is asked of the elements: the double that sums or multiplies them has a wider range than f32,
// and f64 has none to spare.

/// sum, prod, max and min of reals in `type` (f64 or f32).
BoundedReal reduce_bounded(ReduceFn fn, DType type, RealRow row);
/// sum, prod, max and min of i64 or i32; any and all of bool.
BoundedInteger reduce_bounded(ReduceFn fn, DType type, IntegerRow row);
/// One component of a kIndependent tuple: its function of every element, combined.
BoundedReal reduce_bounded(const ReductionComponent& component, DType type, RealRow row);
BoundedInteger reduce_bounded(const ReductionComponent& component, DType type, IntegerRow row);
/// argmax and argmin. Where another element may be the extreme one, the bound reaches to it.
BoundedInteger index_of_extreme(ReduceFn fn, RealRow row);
BoundedInteger index_of_extreme(ReduceFn fn, IntegerRow row);

struct BoundedPair {
  BoundedReal first, second;
};
/// (mean, m2), whether computed by two passes, Welford's update or Chan's merge.
BoundedPair welford_bounded(DType type, RealRow row);
/// (max, sum of exp(x - max)), whether computed by two passes or online with rescaling.
BoundedPair logsumexp_bounded(DType type, RealRow row);

}  // namespace sinter
