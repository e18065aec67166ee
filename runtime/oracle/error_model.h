#pragma once

#include <cstdint>

#include "fusion_ir/op.h"

namespace sinter {

// What the oracle assumes about the arithmetic of the device: the only place with figures about its
// accuracy. All errors are bounds on |device - exact|, where exact means real arithmetic on the
// operands the device itself had; bounded_real.h and bounded_reduction.h add what operand errors
// contribute. Each bound also covers the oracle's own rounding in double, which matters for f64
// graphs only.

/// Relative error of one correctly rounded operation in `type` (f64 or f32).
double rounding_unit(DType type);

/// Smallest magnitude that rounds to infinity in a float type: the largest finite value plus half
/// an ulp; infinity for f64.
double overflow_threshold(DType type);

/// Bound on the error of summing n numbers in any order, relative to the sum of their magnitudes:
/// the smaller of the worst case (n - 1) u and the probabilistic lambda sqrt(n - 1) u of Higham and
/// Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019),
/// theorem 2.4. A product of n numbers has the same bound relative to the product.
double accumulation_error(DType type, int64_t n);

/// Absolute error of a pointwise float function at an exact operand x whose result has magnitude at
/// most `magnitude`. Zero for functions that do not round and where the result is zero or infinite
/// for certain.
double function_error(PointwiseFn fn, DType type, double x, double magnitude);

/// Relative error of exp(x) as the device computes it, without its underflow.
double exp_relative_error(DType type, double x);
/// What a result of exp or exp2 may lose when the device flushes subnormal results to zero.
double exp_underflow(DType type);

/// Most rescalings that a term of an online sum of exponentials passes through, for n terms.
double rescale_chain(int64_t n);

}  // namespace sinter
