#include "runtime/interpreter/float_bits.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "fusion_ir/dtype.h"

namespace sinter::interpreter::float_bits_test {

void expect_same_value(float actual, double expected, uint32_t bits) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << bits;
  } else {
    EXPECT_EQ(std::bit_cast<uint64_t>(static_cast<double>(actual)),
              std::bit_cast<uint64_t>(expected))
        << bits;
  }
}

TEST(FloatBits, DecodesEveryPattern) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    expect_same_value(f16_to_f32(bits), decode(DType::kF16, i), i);
    expect_same_value(bf16_to_f32(bits), decode(DType::kBF16, i), i);
  }
  for (uint32_t i = 0; i < 0x100; ++i) {
    const auto bits = static_cast<uint8_t>(i);
    expect_same_value(f8e4m3_to_f32(bits), decode(DType::kF8E4M3, i), i);
    expect_same_value(f8e5m2_to_f32(bits), decode(DType::kF8E5M2, i), i);
  }
}

void expect_same_bits(float value) {
  if (std::isnan(value)) {
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value))));
    EXPECT_TRUE(std::isnan(f8e4m3_to_f32(f32_to_f8e4m3(value))));
    EXPECT_TRUE(std::isnan(f8e5m2_to_f32(f32_to_f8e5m2(value))));
    return;
  }
  const auto exact = static_cast<double>(value);
  EXPECT_EQ(f32_to_f16(value), encode(DType::kF16, exact)) << exact;
  EXPECT_EQ(f32_to_bf16(value), encode(DType::kBF16, exact)) << exact;
  EXPECT_EQ(f32_to_f8e4m3(value), encode(DType::kF8E4M3, exact)) << exact;
  EXPECT_EQ(f32_to_f8e5m2(value), encode(DType::kF8E5M2, exact)) << exact;
}

TEST(FloatBits, EncodesRandomPatterns) {
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i)
    expect_same_bits(std::bit_cast<float>(static_cast<uint32_t>(random())));
}

/// Every value of each format, the midpoints between neighbours, and the f32 beside each: where
/// rounding decides.
TEST(FloatBits, EncodesTiesAndTheirNeighbours) {
  const auto probe = [](float low, float high) {
    const float middle = low + (high - low) / 2;
    for (const float value : {low, middle}) {
      for (const float near :
           {std::nextafter(value, -INFINITY), value, std::nextafter(value, INFINITY)}) {
        expect_same_bits(near);
        expect_same_bits(-near);
      }
    }
  };
  for (uint16_t i = 0; i < 0x7bff; ++i) {
    probe(f16_to_f32(i), f16_to_f32(static_cast<uint16_t>(i + 1)));
  }
  for (uint8_t i = 0; i < 0x7e; ++i) {
    probe(f8e4m3_to_f32(i), f8e4m3_to_f32(static_cast<uint8_t>(i + 1)));
  }
  for (uint8_t i = 0; i < 0x7b; ++i) {
    probe(f8e5m2_to_f32(i), f8e5m2_to_f32(static_cast<uint8_t>(i + 1)));
  }
  for (uint16_t i = 0; i < 0x7f7f; ++i) {
    probe(bf16_to_f32(i), bf16_to_f32(static_cast<uint16_t>(i + 1)));
  }
  for (const float value : {65504.0F, 65519.0F, 65520.0F, 65536.0F, 448.0F, 464.0F, 480.0F,
                            57344.0F, 61440.0F, 0x1.fffffep127F, INFINITY, 0.0F}) {
    expect_same_bits(value);
    expect_same_bits(-value);
  }
}

}  // namespace sinter::interpreter::float_bits_test
