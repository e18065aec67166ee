#include "tests/campaign/plain_number.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sinter {
namespace {

// ---- Formats of fewer than 32 bits, as tables of their values

struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< f8e4m3 has none: its largest exponent holds numbers and one NaN.
  bool saturates;
};

SmallFormat small_format(DType type) {
  if (type == DType::kF16) return {5, 10, true, false};
  if (type == DType::kBF16) return {8, 7, true, false};
  if (type == DType::kF8E5M2) return {5, 2, true, true};
  if (type == DType::kF8E4M3) return {4, 3, false, true};
  throw std::logic_error("not a small float type");
}

/// The value of a pattern without its sign bit, by IEEE 754, section 3.4, and for f8e4m3 by the OCP
/// 8-bit floating point specification, table 1.
double magnitude_of(const SmallFormat& format, uint32_t pattern) {
  const uint32_t mantissa = pattern % (1U << static_cast<unsigned>(format.mantissa_bits));
  const auto exponent = static_cast<int>(pattern >> static_cast<unsigned>(format.mantissa_bits));
  const int greatest = (1 << format.exponent_bits) - 1;
  const int bias = greatest / 2;
  if (exponent == greatest && format.has_infinity) return mantissa == 0 ? kInfinity : kNan;
  const bool all_ones = mantissa + 1 == (1U << static_cast<unsigned>(format.mantissa_bits));
  if (exponent == greatest && all_ones) return kNan;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -format.mantissa_bits);
  if (exponent == 0) return std::ldexp(fraction, 1 - bias);
  return std::ldexp(1.0 + fraction, exponent - bias);
}

/// Every finite magnitude of a format, ascending; the position is the pattern.
std::vector<double> make_magnitudes(DType type) {
  const SmallFormat format = small_format(type);
  std::vector<double> out;
  for (uint32_t pattern = 0;; ++pattern) {
    const double value = magnitude_of(format, pattern);
    if (!std::isfinite(value)) return out;
    out.push_back(value);
  }
}

const std::vector<double>& magnitudes_of(DType type) {
  static const std::array<std::vector<double>, 4> kTables = {
      make_magnitudes(DType::kF16), make_magnitudes(DType::kBF16), make_magnitudes(DType::kF8E4M3),
      make_magnitudes(DType::kF8E5M2)};
  switch (type) {
    case DType::kF16:
      return kTables[0];
    case DType::kBF16:
      return kTables[1];
    case DType::kF8E4M3:
      return kTables[2];
    default:
      return kTables[3];
  }
}

/// The nearest value of the format, ties to the even pattern.
double nearest(DType type, double value) {
  if (std::isnan(value)) return value;
  const SmallFormat format = small_format(type);
  const std::vector<double>& table = magnitudes_of(type);
  const double magnitude = std::fabs(value);
  const double last = table.back();
  if (magnitude > last) {
    // The next number that the format would have if its exponents went on.
    const double gap = last - table[table.size() - 2];
    const bool rounds_down = magnitude < last + gap / 2;
    return std::copysign(rounds_down || format.saturates ? last : kInfinity, value);
  }
  const auto above = std::ranges::lower_bound(table, magnitude);
  if (*above == magnitude) return value;
  const auto below = above - 1;
  const double up = *above - magnitude;
  const double down = magnitude - *below;
  const bool below_is_even = (below - table.begin()) % 2 == 0;
  return std::copysign(down < up || (down == up && below_is_even) ? *below : *above, value);
}

// ---- Integers

uint64_t bits_of(int64_t x) { return static_cast<uint64_t>(x); }

/// Wraps around to i32 where `type` is that; i64 has wrapped around already.
int64_t wrapped(DType type, uint64_t x) {
  if (type != DType::kI32) return static_cast<int64_t>(x);
  constexpr int64_t kSpan = int64_t{1} << 32;
  const auto low = static_cast<int64_t>(x % (uint64_t{1} << 32));
  return low >= kSpan / 2 ? low - kSpan : low;
}

int64_t magnitude_bits(int64_t x) { return x < 0 ? static_cast<int64_t>(0 - bits_of(x)) : x; }

int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - bits_of(a));
  return a / b;
}

int64_t remainder(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  return a % b;
}

double larger(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return std::max(a, b);
}

double smaller(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return std::min(a, b);
}

double in_double(PointwiseFn fn, double a, double b, double c) {
  switch (fn) {
    case PointwiseFn::kNeg:
      return -a;
    case PointwiseFn::kAbs:
      return std::abs(a);
    case PointwiseFn::kExp:
      return std::exp(a);
    case PointwiseFn::kExp2:
      return std::exp2(a);
    case PointwiseFn::kExpm1:
      return std::expm1(a);
    case PointwiseFn::kLog:
      return std::log(a);
    case PointwiseFn::kLog2:
      return std::log2(a);
    case PointwiseFn::kLog1p:
      return std::log1p(a);
    case PointwiseFn::kSqrt:
      return std::sqrt(a);
    case PointwiseFn::kRsqrt:
      return 1.0 / std::sqrt(a);
    case PointwiseFn::kReciprocal:
      return 1.0 / a;
    case PointwiseFn::kSin:
      return std::sin(a);
    case PointwiseFn::kCos:
      return std::cos(a);
    case PointwiseFn::kTanh:
      return std::tanh(a);
    case PointwiseFn::kErf:
      return std::erf(a);
    case PointwiseFn::kFloor:
      return std::floor(a);
    case PointwiseFn::kCeil:
      return std::ceil(a);
    case PointwiseFn::kTrunc:
      return std::trunc(a);
    case PointwiseFn::kRound:
      return std::rint(a);
    case PointwiseFn::kAdd:
      return a + b;
    case PointwiseFn::kSub:
      return a - b;
    case PointwiseFn::kMul:
      return a * b;
    case PointwiseFn::kDiv:
      return a / b;
    case PointwiseFn::kRem:
      return std::fmod(a, b);
    case PointwiseFn::kPow:
      return std::pow(a, b);
    case PointwiseFn::kMax:
      return larger(a, b);
    case PointwiseFn::kMin:
      return smaller(a, b);
    case PointwiseFn::kFma:
      return std::fma(a, b, c);
    case PointwiseFn::kClamp:
      return smaller(larger(a, b), c);
    default:
      throw std::logic_error("not a function from floats to a float");
  }
}

}  // namespace

double plain_decode_float(DType type, uint64_t bits) {
  if (type == DType::kF64) return std::bit_cast<double>(bits);
  if (type == DType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  const SmallFormat format = small_format(type);
  const int sign_bit = format.exponent_bits + format.mantissa_bits;
  const auto pattern = static_cast<uint32_t>(bits) % (1U << static_cast<unsigned>(sign_bit));
  const double magnitude = magnitude_of(format, pattern);
  return (bits >> static_cast<unsigned>(sign_bit)) % 2 == 1 ? -magnitude : magnitude;
}

int64_t plain_decode_integer(DType type, uint64_t bits) {
  switch (type) {
    case DType::kI64:
      return static_cast<int64_t>(bits);
    case DType::kI32:
      return wrapped(DType::kI32, bits);
    case DType::kI8: {
      const auto low = static_cast<int64_t>(bits % 256);
      return low >= 128 ? low - 256 : low;
    }
    case DType::kU8:
      return static_cast<int64_t>(bits % 256);
    default:
      return bits % 256 != 0 ? 1 : 0;
  }
}

double plain_cast_to_float(DType type, double value) {
  if (type == DType::kF64) return value;
  const auto single = static_cast<double>(static_cast<float>(value));
  return type == DType::kF32 ? single : nearest(type, single);
}

double plain_cast_to_float(DType type, int64_t value) {
  if (type == DType::kF64) return static_cast<double>(value);
  const auto single = static_cast<double>(static_cast<float>(value));
  return type == DType::kF32 ? single : nearest(type, single);
}

int64_t plain_lowest(DType type) {
  switch (type) {
    case DType::kI64:
      return std::numeric_limits<int64_t>::min();
    case DType::kI32:
      return -2147483648LL;
    case DType::kI8:
      return -128;
    default:
      return 0;
  }
}

int64_t plain_highest(DType type) {
  switch (type) {
    case DType::kI64:
      return std::numeric_limits<int64_t>::max();
    case DType::kI32:
      return 2147483647LL;
    case DType::kI8:
      return 127;
    case DType::kU8:
      return 255;
    default:
      return 1;
  }
}

int64_t plain_cast_to_integer(DType type, double value) {
  if (type == DType::kBool) return value == 0.0 ? 0 : 1;  // NaN is not equal to 0.
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  // Both ends of i64 are compared as powers of two, which a double holds.
  if (whole < static_cast<double>(plain_lowest(type))) return plain_lowest(type);
  if (whole >= std::ldexp(1.0, 63) || whole > static_cast<double>(plain_highest(type)))
    return plain_highest(type);
  return static_cast<int64_t>(whole);
}

int64_t plain_cast_to_integer(DType type, int64_t value) {
  if (type == DType::kBool) return value == 0 ? 0 : 1;
  return std::min(std::max(value, plain_lowest(type)), plain_highest(type));
}

double plain_float_function(PointwiseFn fn, DType type, double a, double b, double c) {
  return plain_cast_to_float(type, in_double(fn, a, b, c));
}

bool plain_float_test(PointwiseFn fn, double a, double b) {
  switch (fn) {
    case PointwiseFn::kIsNan:
      return a != a;
    case PointwiseFn::kIsFinite:
      return std::fabs(a) < kInfinity;
    case PointwiseFn::kEq:
      return a == b;
    case PointwiseFn::kNe:
      return !(a == b);
    case PointwiseFn::kLt:
      return a < b;
    case PointwiseFn::kLe:
      return a <= b;
    case PointwiseFn::kGt:
      return a > b;
    case PointwiseFn::kGe:
      return a >= b;
    default:
      throw std::logic_error("not a test of floats");
  }
}

int64_t plain_integer_function(PointwiseFn fn, DType type, int64_t a, int64_t b, int64_t c) {
  switch (fn) {
    case PointwiseFn::kNeg:
      return wrapped(type, 0 - bits_of(a));
    case PointwiseFn::kAbs:
      return wrapped(type, bits_of(magnitude_bits(a)));
    case PointwiseFn::kAdd:
      return wrapped(type, bits_of(a) + bits_of(b));
    case PointwiseFn::kSub:
      return wrapped(type, bits_of(a) - bits_of(b));
    case PointwiseFn::kMul:
      return wrapped(type, bits_of(a) * bits_of(b));
    case PointwiseFn::kDiv:
      return wrapped(type, bits_of(quotient(a, b)));
    case PointwiseFn::kRem:
      return remainder(a, b);
    case PointwiseFn::kMax:
      return std::max(a, b);
    case PointwiseFn::kMin:
      return std::min(a, b);
    case PointwiseFn::kClamp:
      return std::min(std::max(a, b), c);
    case PointwiseFn::kNot:
      return type == DType::kBool ? 1 - a : -1 - a;
    case PointwiseFn::kAnd:
      return static_cast<int64_t>(bits_of(a) & bits_of(b));
    case PointwiseFn::kOr:
      return static_cast<int64_t>(bits_of(a) | bits_of(b));
    case PointwiseFn::kXor:
      return static_cast<int64_t>(bits_of(a) ^ bits_of(b));
    case PointwiseFn::kEq:
      return a == b ? 1 : 0;
    case PointwiseFn::kNe:
      return a == b ? 0 : 1;
    case PointwiseFn::kLt:
      return a < b ? 1 : 0;
    case PointwiseFn::kLe:
      return b < a ? 0 : 1;
    case PointwiseFn::kGt:
      return b < a ? 1 : 0;
    case PointwiseFn::kGe:
      return a < b ? 0 : 1;
    default:
      throw std::logic_error("not a function of integers");
  }
}

// Philox4x32-10 as Salmon et al. define it (SC11, sections 3.1 and 4.3): ten rounds of two 32 x 32
// bit products, S-boxes keyed by words that grow by the Weyl constants from round to round.
double plain_philox_uniform(int64_t seed, int64_t index) {
  const auto half = [](uint64_t x, unsigned which) {
    return static_cast<uint32_t>(x >> (32U * which));
  };
  const uint64_t counter = bits_of(index) / 4;
  std::array<uint32_t, 4> x = {half(counter, 0), half(counter, 1), 0, 0};
  std::array<uint32_t, 2> key = {half(bits_of(seed), 0), half(bits_of(seed), 1)};
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      key[0] += 0x9E3779B9U;
      key[1] += 0xBB67AE85U;
    }
    const uint64_t left = uint64_t{0xD2511F53U} * x[0];
    const uint64_t right = uint64_t{0xCD9E8D57U} * x[2];
    x = {half(right, 1) ^ x[1] ^ key[0], half(right, 0), half(left, 1) ^ x[3] ^ key[1],
         half(left, 0)};
  }
  return std::ldexp(static_cast<double>(x[bits_of(index) % 4] / 256), -24);
}

}  // namespace sinter
