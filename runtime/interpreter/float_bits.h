#pragma once

#include <cstdint>

namespace sinter::interpreter {

// Fast conversions between f32 and the storage-only float types, bit for bit those of
// fusion_ir/dtype.h: nearest even, 8-bit floats saturate to their largest finite value. NaN becomes
// the positive quiet NaN with a full mantissa.

[[nodiscard]] float f16_to_f32(uint16_t bits);
[[nodiscard]] float bf16_to_f32(uint16_t bits);
[[nodiscard]] float f8e4m3_to_f32(uint8_t bits);
[[nodiscard]] float f8e5m2_to_f32(uint8_t bits);

[[nodiscard]] uint16_t f32_to_f16(float value);
[[nodiscard]] uint16_t f32_to_bf16(float value);
[[nodiscard]] uint8_t f32_to_f8e4m3(float value);
[[nodiscard]] uint8_t f32_to_f8e5m2(float value);

}  // namespace sinter::interpreter
