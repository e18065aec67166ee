#pragma once

#include <cstdint>
#include <limits>

#include "fusion_ir/op.h"

// Numbers by the text at the head of fusion_ir/op.h, written a second time: nothing here calls
// round_to(), decode(), evaluate() or philox_uniform(), so that a fault of those shows as a
// difference.

namespace sinter {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The value that `bits` stand for in a float type.
double plain_decode_float(DType type, uint64_t bits);
/// The value that they stand for in an integer type or bool.
int64_t plain_decode_integer(DType type, uint64_t bits);

/// To a float type: what is neither f64 nor f32 passes through f32.
double plain_cast_to_float(DType type, double value);
double plain_cast_to_float(DType type, int64_t value);
/// To an integer type or bool.
int64_t plain_cast_to_integer(DType type, double value);
int64_t plain_cast_to_integer(DType type, int64_t value);

/// Least and greatest value of an integer type.
int64_t plain_lowest(DType type);
int64_t plain_highest(DType type);

/// A pointwise function from floats to a float, rounded to `type` (f64 or f32) once.
double plain_float_function(PointwiseFn fn, DType type, double a, double b, double c);
/// A comparison or test of floats.
bool plain_float_test(PointwiseFn fn, double a, double b);
/// A pointwise function of integers or bools, comparisons among them.
int64_t plain_integer_function(PointwiseFn fn, DType type, int64_t a, int64_t b, int64_t c);
/// philox_uniform of a seed and an index.
double plain_philox_uniform(int64_t seed, int64_t index);

}  // namespace sinter
