#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sinter {

/// Element types. Arithmetic on 16-bit and 8-bit floats happens in f32; they are storage types with
/// explicit casts.
enum class DType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI8,
  kU8,
  kBool
};

inline constexpr std::array kAllDTypes = {DType::kF64,    DType::kF32,    DType::kF16, DType::kBF16,
                                          DType::kF8E4M3, DType::kF8E5M2, DType::kI64, DType::kI32,
                                          DType::kI8,     DType::kU8,     DType::kBool};

/// Text name: "bf16", "f32", "i64", "bool".
std::string_view name_of(DType type);
std::optional<DType> dtype_from_name(std::string_view name);

/// Storage bytes of one element; bool takes one byte holding 0 or 1.
int64_t bytes_of(DType type);

bool is_float(DType type);
/// i64, i32, i8 and u8; bool is not an integer.
bool is_integer(DType type);
/// True if `value` is an element of an integer type, or 0 or 1 and the type bool. False for floats.
bool holds_integer(DType type, int64_t value);
/// True for f16, bf16 and the 8-bit floats: types that are stored but never computed in.
bool is_storage_only(DType type);
/// The type arithmetic on `type` happens in: f32 for storage-only floats, i32 for 8-bit integers,
/// else itself.
DType compute_type(DType type);

/// Unit roundoff of a float type: half the distance from 1 to the next larger number (f32: 2^-24).
/// Zero for other types.
double unit_roundoff(DType type);
/// Smallest positive subnormal (f32: 2^-149). Zero for other types.
double smallest_subnormal(DType type);
/// Largest finite value of a float or integer type; 1 for bool.
double largest_finite(DType type);

/// True if every value of `from` is also a value of `to`, so that the cast loses nothing.
bool casts_exactly(DType from, DType to);

/// Rounds a double to the nearest value of `type`, ties to even, as the device does: f16, bf16 and
/// 8-bit floats go through f32. 8-bit floats saturate to their largest finite value (the device's
/// satfinite conversion); NaN stays NaN. Integers truncate towards zero and saturate; NaN becomes
/// 0. Bool is x != 0.
double round_to(DType type, double value);

/// Decodes one stored element; `bits` holds it in its low bytes (little endian). i64 beyond 2^53
/// loses low bits.
double decode(DType type, uint64_t bits);
/// Encodes a value after round_to(type, value).
uint64_t encode(DType type, double value);

}  // namespace sinter

template <>
struct fmt::formatter<sinter::DType> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(sinter::DType type, fmt::format_context& context) const {
    return std::ranges::copy(sinter::name_of(type), context.out()).out;
  }
};
