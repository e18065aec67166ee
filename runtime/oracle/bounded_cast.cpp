#include "runtime/oracle/bounded_cast.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/oracle/error_model.h"
#include "runtime/oracle/integer_range.h"

namespace sinter {
namespace {

double spread_of_ends(DType type, BoundedReal x, double result) {
  return std::max(spread(result, round_to(type, x.value - x.bound)),
                  spread(result, round_to(type, x.value + x.bound)));
}

/// round_to answers 2^63 for the largest i64, which a double cannot hold.
int64_t to_integer(double rounded) {
  return rounded >= 0x1p63 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(rounded);
}

}  // namespace

BoundedReal cast_to_real(DType type, BoundedReal x) {
  const double result = round_to(type, x.value);
  // A double is every finite float, so nothing rounds; its ends would only lose digits of the
  // bound.
  if (type == DType::kF64 || x.bound == 0.0 || std::isinf(x.bound)) return {result, x.bound};
  return {result, spread_of_ends(type, x, result)};
}

BoundedReal cast_to_real(DType type, BoundedInteger x) {
  // Through f32 as on the device, and straight from the integer so that nothing rounds twice.
  const double direct = type == DType::kF64
                            ? static_cast<double>(x.value)
                            : round_to(type, static_cast<double>(static_cast<float>(x.value)));
  if (x.bound == 0.0) return {direct, 0.0};
  const double reach = std::fabs(direct) + x.bound;
  return settle(compute_type(type), {direct, x.bound + 2.0 * unit_roundoff(type) * reach});
}

BoundedInteger cast_to_integer(DType type, BoundedReal x) {
  const double result = round_to(type, x.value);
  if (type == DType::kBool) {
    const bool certain = x.bound == 0.0 || std::isnan(x.value) || std::fabs(x.value) > x.bound;
    return {static_cast<int64_t>(result), certain && !std::isinf(x.bound) ? 0.0 : 1.0};
  }
  if (std::isinf(x.bound)) return {to_integer(result), kUnbounded};
  return {to_integer(result), x.bound == 0.0 ? 0.0 : spread_of_ends(type, x, result)};
}

BoundedInteger cast_to_integer(DType type, BoundedInteger x) {
  const int64_t value = saturate_to(type, x.value);
  if (type == DType::kBool) {
    const bool certain = x.bound == 0.0 || std::fabs(static_cast<double>(x.value)) > x.bound;
    return {value, certain ? 0.0 : 1.0};
  }
  return {value, x.bound};  // saturation brings no two integers further apart
}

}  // namespace sinter
