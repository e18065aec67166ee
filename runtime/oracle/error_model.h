#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "fusion_ir/error.h"
#include "fusion_ir/op.h"

namespace sinter {

// What the oracle assumes about the arithmetic of the device: the only place with figures about its
// accuracy. All errors are bounds on |device - exact|, where exact means real arithmetic on the
// operands the device itself had; bounded_real.h and bounded_reduction.h add what operand errors
// contribute. Each bound also covers the oracle's own rounding in double, which matters for f64
// graphs only.

// What every element asks for is defined here, where it can be inlined.

/// The bound of an error that nothing limits.
inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// Relative error of one correctly rounded operation in `type` (f64 or f32).
constexpr double rounding_unit(DType type) {
  constexpr double kOracleUnit = 0x1p-53;
  return (type == DType::kF64 ? 0x1p-53 : 0x1p-24) + kOracleUnit;
}

/// Smallest magnitude that rounds to infinity in a float type: the largest finite value plus half
/// an ulp; infinity for f64.
constexpr double overflow_threshold(DType type) {
  constexpr double kF32 = 0x1.ffffffp127;
  return type == DType::kF64 ? std::numeric_limits<double>::infinity() : kF32;
}

/// Gradual underflow in `type` (f64 or f32): below the smallest normal number the rounding error is
/// absolute, half the smallest subnormal.
constexpr double underflow_error(DType type, double magnitude) {
  const double smallest_normal = type == DType::kF64 ? 0x1p-1022 : 0x1p-126;
  const double half_subnormal = type == DType::kF64 ? 0x1p-1074 / 2.0 : 0x1p-150;
  return magnitude > 0.0 && magnitude < smallest_normal ? half_subnormal : 0.0;
}

/// Absolute error of add, sub, mul or fma in `type` (f64 or f32) whose result has magnitude at most
/// `magnitude`.
inline double arithmetic_error(DType type, double magnitude) {
  if (!std::isfinite(magnitude)) return 0.0;
  return rounding_unit(type) * magnitude + underflow_error(type, magnitude);
}

/// Bound on the error of summing n numbers in any order, relative to the sum of their magnitudes:
/// the smaller of the worst case (n - 1) u and the probabilistic lambda sqrt(n - 1) u of Higham and
/// Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019),
/// theorem 2.4. A product of n numbers has the same bound relative to the product.
double accumulation_error(DType type, int64_t n);
/// The same of numbers that repeat after `period` of them. Steps at the same place of different
/// repeats may round alike, so only `period` roundings are independent, each n / period times over:
/// the probabilistic bound is lambda (n / period) sqrt(period) u. The worst case is as it was.
double accumulation_error(DType type, int64_t n, int64_t period);

/// More of it for 1 + tanh(x) and 1 - tanh(x), which a device may find without tanh(x).
double one_and_tanh_error(DType type, double magnitude);

/// Absolute error of a pointwise float function at an exact operand x whose result has magnitude at
/// most `magnitude`. Zero for functions that do not round and where the result is zero or infinite
/// for certain.
double function_error(PointwiseFn fn, DType type, double x, double magnitude);

/// Relative error of exp(x) as the device computes it, without its underflow.
double exp_relative_error(DType type, double x);
/// What a result of exp or exp2 may lose when the device flushes subnormal results to zero.
double exp_underflow(DType type);

/// Relative error of a number rounded to TF32, which has 10 bits behind the point, to the nearest.
inline constexpr double kTf32Unit = 0x1p-11;
/// Its smallest subnormal: its exponents are those of f32.
inline constexpr double kTf32Subnormal = 0x1p-136;
/// Error of a product of a contraction, relative to its magnitude, beyond its rounding to f32. Of
/// two operands rounded to TF32; or of three products of what two TF32 numbers hold of an operand,
/// which misses 2^-22 of either and the product of their second parts.
constexpr double contracted_product_error(ContractPrecision precision) {
  switch (precision) {
    case ContractPrecision::kIeee:
      return 0.0;
    case ContractPrecision::kTf32x3:
      return 3.0 * kTf32Unit * kTf32Unit;
    case ContractPrecision::kTf32:
      return (2.0 + kTf32Unit) * kTf32Unit;
  }
  unreachable();
}

/// What an operand of such a product may be off by besides, where it is subnormal in TF32: half of
/// the smallest subnormal where it is rounded to the nearest, and all of it where the second of its
/// two parts, which matrix instructions cut off, is subnormal.
constexpr double contracted_operand_error(ContractPrecision precision) {
  switch (precision) {
    case ContractPrecision::kIeee:
      return 0.0;
    case ContractPrecision::kTf32x3:
      return kTf32Subnormal;
    case ContractPrecision::kTf32:
      return 0.5 * kTf32Subnormal;
  }
  unreachable();
}

/// Most rescalings that a term of an online sum of exponentials passes through, for n terms.
double rescale_chain(int64_t n);

}  // namespace sinter
