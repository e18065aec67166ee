#include "fusion_ir/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fusion_ir/error.h"

namespace sinter {
namespace {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  double largest;
  bool has_infinity;
};

struct TypeInfo {
  DType type;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<TypeInfo, kAllDTypes.size()> kTypes = {{
    {DType::kF64, "f64", 8},
    {DType::kF32, "f32", 4},
    {DType::kF16, "f16", 2},
    {DType::kBF16, "bf16", 2},
    {DType::kF8E4M3, "f8e4m3", 1},
    {DType::kF8E5M2, "f8e5m2", 1},
    {DType::kI64, "i64", 8},
    {DType::kI32, "i32", 4},
    {DType::kI8, "i8", 1},
    {DType::kU8, "u8", 1},
    {DType::kBool, "bool", 1},
}};

/// Formats below 64 bits. E4M3 is the "fn" variant of the OCP 8-bit float specification: no
/// infinity, largest value 448.
FloatFormat format_of(DType type) {
  switch (type) {
    case DType::kF32:
      return {8, 23, 0x1.fffffep127, true};
    case DType::kF16:
      return {5, 10, 65504.0, true};
    case DType::kBF16:
      return {8, 7, 0x1.fep127, true};
    case DType::kF8E4M3:
      return {4, 3, 448.0, false};
    case DType::kF8E5M2:
      return {5, 2, 57344.0, true};
    default:
      break;
  }
  unreachable();
}

int bias_of(const FloatFormat& format) { return (1 << (format.exponent_bits - 1)) - 1; }

/// Rounds an f32 number to `mantissa_bits` with ties to even, honouring the format's subnormal
/// range. Overflow is left to the caller.
double round_mantissa(double value, const FloatFormat& format) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  constexpr int kMantissaBits = 52;  // Of a double, in which no f32 number is subnormal.
  constexpr int kBias = 1023;
  const int exponent =
      static_cast<int>(std::bit_cast<uint64_t>(std::fabs(value)) >> kMantissaBits) - kBias;
  const int lowest = 1 - bias_of(format) - format.mantissa_bits;
  const int quantum = std::max(exponent - format.mantissa_bits, lowest);
  // Doubles between 2^(quantum + 52) and twice that are 2^quantum apart, so adding the lower one
  // rounds to that distance, and taking it away again is exact.
  const double shift = std::bit_cast<double>(static_cast<uint64_t>(quantum + kMantissaBits + kBias)
                                             << kMantissaBits);
  return std::copysign((std::fabs(value) + shift) - shift, value);
}

double round_float(DType type, double value) {
  const FloatFormat format = format_of(type);
  const double rounded = round_mantissa(value, format);
  if (std::isnan(rounded) || std::fabs(rounded) <= format.largest) return rounded;
  const bool saturates = type == DType::kF8E4M3 || type == DType::kF8E5M2;
  return std::copysign(saturates ? format.largest : std::numeric_limits<double>::infinity(),
                       rounded);
}

double saturate_integer(double value, double low, double high) {
  if (std::isnan(value)) return 0.0;
  return std::min(std::max(std::trunc(value), low), high);
}

}  // namespace

std::string_view name_of(DType type) { return kTypes[static_cast<size_t>(type)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const TypeInfo& info : kTypes) {
    if (info.name == name) return info.type;
  }
  return std::nullopt;
}

int64_t bytes_of(DType type) { return kTypes[static_cast<size_t>(type)].bytes; }

bool is_float(DType type) { return type <= DType::kF8E5M2; }

bool is_integer(DType type) { return type >= DType::kI64 && type <= DType::kU8; }

bool holds_integer(DType type, int64_t value) {
  switch (type) {
    case DType::kI64:
      return true;
    case DType::kI32:
      return value == static_cast<int32_t>(value);
    case DType::kI8:
      return value == static_cast<int8_t>(value);
    case DType::kU8:
      return value == static_cast<uint8_t>(value);
    case DType::kBool:
      return value == 0 || value == 1;
    case DType::kF64:
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return false;
  }
  unreachable();
}

bool is_storage_only(DType type) { return type >= DType::kF16 && type <= DType::kF8E5M2; }

DType compute_type(DType type) {
  if (is_storage_only(type)) return DType::kF32;
  if (type == DType::kI8 || type == DType::kU8) return DType::kI32;
  return type;
}

double unit_roundoff(DType type) {
  if (type == DType::kF64) return 0x1p-53;
  if (!is_float(type)) return 0.0;
  return std::ldexp(1.0, -(format_of(type).mantissa_bits + 1));
}

double smallest_subnormal(DType type) {
  if (type == DType::kF64) return 0x1p-1074;
  if (!is_float(type)) return 0.0;
  const FloatFormat format = format_of(type);
  return std::ldexp(1.0, 1 - bias_of(format) - format.mantissa_bits);
}

double largest_finite(DType type) {
  switch (type) {
    case DType::kF64:
      return std::numeric_limits<double>::max();
    case DType::kI64:
      return 0x1p63;
    case DType::kI32:
      return 2147483647.0;
    case DType::kI8:
      return 127.0;
    case DType::kU8:
      return 255.0;
    case DType::kBool:
      return 1.0;
    default:
      return format_of(type).largest;
  }
}

bool casts_exactly(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::kBool || (is_float(from) && !is_float(to))) return false;
  const bool range_fits = largest_finite(from) <= largest_finite(to);
  if (is_float(from)) {
    return range_fits && unit_roundoff(from) >= unit_roundoff(to) &&
           smallest_subnormal(from) >= smallest_subnormal(to);
  }
  // A float of roundoff 2^-p holds every integer up to 2^p.
  if (is_float(to)) return range_fits && largest_finite(from) * unit_roundoff(to) <= 1.0;
  const bool negative_fits = from == DType::kU8 || from == DType::kBool || to != DType::kU8;
  return range_fits && negative_fits;
}

double round_to(DType type, double value) {
  switch (type) {
    case DType::kF64:
      return value;
    case DType::kF32:
      return static_cast<double>(static_cast<float>(value));
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return round_float(type, static_cast<double>(static_cast<float>(value)));
    case DType::kI64:
      return saturate_integer(value, -0x1p63, 0x1p63);
    case DType::kI32:
      return saturate_integer(value, -2147483648.0, 2147483647.0);
    case DType::kI8:
      return saturate_integer(value, -128.0, 127.0);
    case DType::kU8:
      return saturate_integer(value, 0.0, 255.0);
    case DType::kBool:
      return value != 0.0 ? 1.0 : 0.0;
  }
  unreachable();
}

double decode(DType type, uint64_t bits) {
  switch (type) {
    case DType::kF64:
      return std::bit_cast<double>(bits);
    case DType::kF32:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case DType::kBF16:
      return static_cast<double>(
          std::bit_cast<float>(static_cast<uint32_t>(bits & 0xffffU) << 16U));
    case DType::kI64:
      return static_cast<double>(static_cast<int64_t>(bits));
    case DType::kI32:
      return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(bits)));
    case DType::kI8:
      return static_cast<double>(static_cast<int8_t>(static_cast<uint8_t>(bits)));
    case DType::kU8:
      return static_cast<double>(static_cast<uint8_t>(bits));
    case DType::kBool:
      return (bits & 0xffU) != 0 ? 1.0 : 0.0;
    case DType::kF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      break;
  }
  const FloatFormat format = format_of(type);
  const uint64_t mantissa_mask = (uint64_t{1} << format.mantissa_bits) - 1;
  const uint64_t exponent_mask = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t mantissa = bits & mantissa_mask;
  const uint64_t exponent = (bits >> format.mantissa_bits) & exponent_mask;
  const bool negative = ((bits >> (format.mantissa_bits + format.exponent_bits)) & 1U) != 0;
  double magnitude = 0.0;
  if (format.has_infinity && exponent == exponent_mask) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (!format.has_infinity && exponent == exponent_mask && mantissa == mantissa_mask) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude =
        std::ldexp(static_cast<double>(mantissa), 1 - bias_of(format) - format.mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<double>(mantissa | (mantissa_mask + 1)),
                           static_cast<int>(exponent) - bias_of(format) - format.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

uint64_t encode(DType type, double value) {
  const double rounded = round_to(type, value);
  switch (type) {
    case DType::kF64:
      return std::bit_cast<uint64_t>(rounded);
    case DType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(rounded));
    case DType::kBF16:
      return std::bit_cast<uint32_t>(static_cast<float>(rounded)) >> 16U;
    case DType::kI64:
      return rounded >= 0x1p63 ? uint64_t{0x7fff'ffff'ffff'ffff}
                               : static_cast<uint64_t>(static_cast<int64_t>(rounded));
    case DType::kI32:
      return static_cast<uint32_t>(static_cast<int32_t>(rounded));
    case DType::kI8:
      return static_cast<uint8_t>(static_cast<int8_t>(rounded));
    case DType::kU8:
      return static_cast<uint8_t>(rounded);
    case DType::kBool:
      return rounded != 0.0 ? 1U : 0U;
    case DType::kF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      break;
  }
  const FloatFormat format = format_of(type);
  const uint64_t exponent_mask = (uint64_t{1} << format.exponent_bits) - 1;
  const uint64_t mantissa_mask = (uint64_t{1} << format.mantissa_bits) - 1;
  const uint64_t sign =
      std::signbit(rounded) ? uint64_t{1} << (format.mantissa_bits + format.exponent_bits) : 0;
  if (std::isnan(rounded)) return (exponent_mask << format.mantissa_bits) | mantissa_mask;
  if (std::isinf(rounded)) return sign | (exponent_mask << format.mantissa_bits);
  if (rounded == 0.0) return sign;
  int exponent = 0;
  std::frexp(rounded, &exponent);
  const int biased = exponent - 1 + bias_of(format);
  if (biased <= 0) {
    const double units = std::ldexp(std::fabs(rounded), bias_of(format) - 1 + format.mantissa_bits);
    return sign | static_cast<uint64_t>(units);
  }
  const double units = std::ldexp(std::fabs(rounded), format.mantissa_bits - (exponent - 1));
  return sign | (static_cast<uint64_t>(biased) << format.mantissa_bits) |
         (static_cast<uint64_t>(units) & mantissa_mask);
}

}  // namespace sinter
