#include "runtime/interpreter/float_bits.h"

#include <bit>

namespace sinter::interpreter {
namespace {

constexpr uint32_t kSignBit = 0x8000'0000U;
constexpr uint32_t kInfinityBits = 0x7f80'0000U;
constexpr uint32_t kQuietNan = 0x7fff'ffffU;
constexpr int kF32MantissaBits = 23;
constexpr int kF32Bias = 127;

/// A float format narrower than f32.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  uint32_t overflow;  ///< Bits of a magnitude above the largest finite value: that value or +inf.
  uint32_t largest;   ///< Bits of the largest finite value.
  uint32_t nan;       ///< Bits of the NaN that stands for all.
  [[nodiscard]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] constexpr int dropped_bits() const { return kF32MantissaBits - mantissa_bits; }
  /// What to add to this format's exponent field to get that of f32.
  [[nodiscard]] constexpr uint32_t rebias() const {
    return static_cast<uint32_t>(kF32Bias - bias());
  }
};

constexpr Format kF16{5, 10, 0x7c00, 0x7bff, 0x7fff};
constexpr Format kE4M3{4, 3, 0x7e, 0x7e, 0x7f};
constexpr Format kE5M2{5, 2, 0x7b, 0x7b, 0x7f};

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + kF32Bias) << kF32MantissaBits);
}

/// Exact value of a finite number or infinity whose sign has been taken off.
template <Format kFormat>
float decode_magnitude(uint32_t bits) {
  const uint32_t exponent = bits >> kFormat.mantissa_bits;
  if (exponent == 0) {
    return static_cast<float>(bits) * power_of_two(1 - kFormat.bias() - kFormat.mantissa_bits);
  }
  return std::bit_cast<float>((bits << kFormat.dropped_bits()) +
                              (kFormat.rebias() << kF32MantissaBits));
}

float with_sign(float magnitude, bool negative) { return negative ? -magnitude : magnitude; }

template <Format kFormat>
uint32_t encode(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & ~kSignBit;
  if (magnitude > kInfinityBits) return kFormat.nan;
  const uint32_t sign = (bits & kSignBit) >> (31 - kFormat.exponent_bits - kFormat.mantissa_bits);
  constexpr uint32_t kSmallestNormal = (kFormat.rebias() + 1) << kF32MantissaBits;
  if (magnitude < kSmallestNormal) {
    // The unit in the last place of this power of two is the format's smallest subnormal, so the
    // addition rounds to it, ties to even.
    constexpr float kRounder =
        power_of_two(1 - kFormat.bias() - kFormat.mantissa_bits + kF32MantissaBits);
    const float rounded = std::bit_cast<float>(magnitude) + kRounder;
    return sign | (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(kRounder));
  }
  constexpr uint32_t kHalf = (1U << (kFormat.dropped_bits() - 1)) - 1;
  const uint32_t odd = (magnitude >> kFormat.dropped_bits()) & 1U;
  const uint32_t rebiased = magnitude - (kFormat.rebias() << kF32MantissaBits);
  const uint32_t rounded = (rebiased + kHalf + odd) >> kFormat.dropped_bits();
  return sign | (rounded > kFormat.largest ? kFormat.overflow : rounded);
}

}  // namespace

float f16_to_f32(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffU;
  const bool negative = bits > 0x7fffU;
  if (magnitude > kF16.overflow) return std::bit_cast<float>(kQuietNan);
  if (magnitude == kF16.overflow) return with_sign(std::bit_cast<float>(kInfinityBits), negative);
  return with_sign(decode_magnitude<kF16>(magnitude), negative);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float f8e4m3_to_f32(uint8_t bits) {
  const uint32_t magnitude = bits & 0x7fU;
  if (magnitude == kE4M3.nan) return std::bit_cast<float>(kQuietNan);
  return with_sign(decode_magnitude<kE4M3>(magnitude), bits > 0x7fU);
}

// E5M2 is the upper byte of f16: same exponent, mantissa cut to two bits.
float f8e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

uint16_t f32_to_f16(float value) { return static_cast<uint16_t>(encode<kF16>(value)); }

uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & ~kSignBit) > kInfinityBits) return 0x7fff;
  const uint32_t odd = (bits >> 16) & 1U;
  return static_cast<uint16_t>((bits + 0x7fff + odd) >> 16);
}

uint8_t f32_to_f8e4m3(float value) { return static_cast<uint8_t>(encode<kE4M3>(value)); }

uint8_t f32_to_f8e5m2(float value) { return static_cast<uint8_t>(encode<kE5M2>(value)); }

}  // namespace sinter::interpreter
