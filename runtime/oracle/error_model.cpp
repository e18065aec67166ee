#include "runtime/oracle/error_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fusion_ir/error.h"

namespace sinter {
namespace {

/// Confidence parameter of the probabilistic bound: it fails with probability below
/// 2 exp(-lambda^2 / 2) = 3e-8 (Higham and Mary 2019, theorem 2.4).
constexpr double kLambda = 6.0;

/// Largest relative error of ex2.approx.f32 (PTX ISA, "ex2").
constexpr double kEx2Relative = 0x1p-22;
/// exp(x) is ex2(x * log2(e)). The product rounds (relative 2^-24) and so does the constant
/// (fl32(log2 e) is off by 1.3e-8 = 0.23 * 2^-24). An exponent off by d scales the result by
/// 2^d = 1 + d ln 2 + ..., and |x| log2(e) ln 2 = |x|: the relative error per unit of |x|.
constexpr double kExpPerUnit = 1.25 * 0x1p-24;

// Largest errors in ulps. Of instructions, PTX ISA: div.full.f32 2 ulps, rcp.approx.f32 1 ulp,
// sqrt.approx.f32 2^-23 and rsqrt.approx.f32 2^-22.9 relative. Correctly rounded variants are
// within them, and so is a product with a reciprocal in place of a division.
constexpr double kDivUlps = 2.0;
constexpr double kReciprocalUlps = 1.0;
constexpr double kSqrtUlps = 1.0;
constexpr double kRsqrtUlps = 2.0;
// lg2.approx.ftz.f32 2^-22 relative outside of [0.5, 2); a library function, of 1 ulp, serves
// there. A logarithm to another base is a product with a constant that is off by 0.05 * 2^-24.
constexpr double kLog2Ulps = 2.0;
constexpr double kLogUlps = 2.6;
// Of library functions, CUDA C++ programming guide, "Mathematical functions", single precision.
constexpr double kExpm1Ulps = 1.0;
constexpr double kLog1pUlps = 1.0;
constexpr double kSinUlps = 2.0;
constexpr double kCosUlps = 2.0;
constexpr double kTanhUlps = 2.0;
// 1 + tanh(x) as 2 / (1 + exp(-2 x)): 2^-22 of exp, 2^-24 of the sum and 1 ulp of the reciprocal,
// 3.5 ulps together, and 1.25 * 2^-24 * |2 x| of exp's argument times the share that the power has
// of the sum, which is below half an ulp of the result for x >= 0 and of 1 for x < 0, where tanh(x)
// is as far off.
constexpr double kOneAndTanhUlps = 4.0;
constexpr double kErfUlps = 2.0;
constexpr double kPowUlps = 4.0;

/// Largest error of any double-precision function of those tables (2 ulps) plus that of the host's
/// own library (below 1 ulp, glibc manual, "Known maximum errors"; another for differences of two).
constexpr double kDoubleUlps = 4.0;

double smallest_normal(DType type) {
  return smallest_subnormal(type) / (2.0 * unit_roundoff(type));
}

/// Error of `ulps` units in the last place: an ulp is at most 2u relative to the number, and at
/// least the smallest subnormal.
double ulps_error(DType type, double ulps, double magnitude) {
  const double total = type == DType::kF64 ? std::max(ulps, kDoubleUlps) : ulps;
  const double subnormal =
      magnitude > 0.0 && magnitude < smallest_normal(type) ? smallest_subnormal(type) : 0.0;
  return total * (2.0 * rounding_unit(type) * magnitude + subnormal);
}

}  // namespace

double accumulation_error(DType type, int64_t n) { return accumulation_error(type, n, n); }

double accumulation_error(DType type, int64_t n, int64_t period) {
  if (n <= 1) return 0.0;
  const double u = rounding_unit(type);
  const auto roundings = static_cast<double>(n - 1);
  const double worst = roundings * u < 0.5 ? roundings * u / (1.0 - roundings * u)
                                           : std::numeric_limits<double>::infinity();
  const double alike = std::ceil(static_cast<double>(n) / static_cast<double>(period));
  const double independent = static_cast<double>(std::min(n - 1, period));
  const double probable = std::expm1(
      (kLambda * alike * std::sqrt(independent) * u + alike * roundings * u * u) / (1.0 - u));
  return std::min(worst, probable);
}

double one_and_tanh_error(DType type, double magnitude) {
  return std::isfinite(magnitude) ? ulps_error(type, kOneAndTanhUlps, magnitude) : 0.0;
}

double function_error(PointwiseFn fn, DType type, double x, double magnitude) {
  if (!std::isfinite(magnitude) || std::isinf(x)) return 0.0;
  const auto ulps = [&](double count) { return ulps_error(type, count, magnitude); };
  switch (fn) {
    case PointwiseFn::kExp:
      return exp_relative_error(type, x) * magnitude + exp_underflow(type);
    case PointwiseFn::kExp2:
      if (type == DType::kF64) return ulps(kDoubleUlps);
      return kEx2Relative * magnitude + exp_underflow(type);
    case PointwiseFn::kExpm1:
      return ulps(kExpm1Ulps);
    case PointwiseFn::kLog:
      return ulps(kLogUlps);
    case PointwiseFn::kLog2:
      return ulps(kLog2Ulps);
    case PointwiseFn::kLog1p:
      return ulps(kLog1pUlps);
    case PointwiseFn::kSqrt:
      return ulps(kSqrtUlps);
    case PointwiseFn::kRsqrt:
      return ulps(kRsqrtUlps);
    case PointwiseFn::kReciprocal:
      return ulps(kReciprocalUlps) + underflow_error(type, magnitude);
    case PointwiseFn::kSin:
      return ulps(kSinUlps);
    case PointwiseFn::kCos:
      return ulps(kCosUlps);
    case PointwiseFn::kTanh:
      return ulps(kTanhUlps);
    case PointwiseFn::kErf:
      return ulps(kErfUlps);
    case PointwiseFn::kPow:
      return ulps(kPowUlps) + underflow_error(type, magnitude);
    case PointwiseFn::kDiv:
      return ulps(kDivUlps) + underflow_error(type, magnitude);
    case PointwiseFn::kAdd:
    case PointwiseFn::kSub:
    case PointwiseFn::kMul:
    case PointwiseFn::kFma:
      return arithmetic_error(type, magnitude);
    case PointwiseFn::kNeg:
    case PointwiseFn::kAbs:
    case PointwiseFn::kFloor:
    case PointwiseFn::kCeil:
    case PointwiseFn::kTrunc:
    case PointwiseFn::kRound:
    case PointwiseFn::kRem:
    case PointwiseFn::kMax:
    case PointwiseFn::kMin:
    case PointwiseFn::kClamp:
    case PointwiseFn::kSelect:
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
    case PointwiseFn::kPhiloxUniform:
      return 0.0;
  }
  unreachable();
}

double exp_relative_error(DType type, double x) {
  if (type == DType::kF64) return 2.0 * kDoubleUlps * rounding_unit(type);
  return kEx2Relative + kExpPerUnit * std::fabs(x);
}

double exp_underflow(DType type) { return smallest_normal(type); }

double rescale_chain(int64_t n) {
  // A running maximum over n terms in random order rises H_n < 1 + ln n times, and a tree that
  // merges partial results adds log2 n levels. The factor 1 of a maximum that stays is exact.
  return n <= 1 ? 0.0 : 2.0 * (1.0 + std::log2(static_cast<double>(n)));
}

}  // namespace sinter
