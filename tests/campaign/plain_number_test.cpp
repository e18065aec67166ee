#include "tests/campaign/plain_number.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace sinter::plain_number_test {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();

// ---- Formats, from their specifications

TEST(PlainFormats, HalfPrecision) {
  EXPECT_EQ(plain_decode_float(DType::kF16, 0x3c00), 1.0);
  EXPECT_EQ(plain_decode_float(DType::kF16, 0xc000), -2.0);
  EXPECT_EQ(plain_decode_float(DType::kF16, 0x7bff), 65504.0);
  EXPECT_EQ(plain_decode_float(DType::kF16, 0x0001), 0x1p-24);
  EXPECT_EQ(plain_decode_float(DType::kF16, 0x0400), 0x1p-14);
  EXPECT_EQ(plain_decode_float(DType::kF16, 0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(plain_decode_float(DType::kF16, 0x7e00)));
  EXPECT_TRUE(std::signbit(plain_decode_float(DType::kF16, 0x8000)));
}

TEST(PlainFormats, BrainFloat) {
  EXPECT_EQ(plain_decode_float(DType::kBF16, 0x3f80), 1.0);
  EXPECT_EQ(plain_decode_float(DType::kBF16, 0x4049), 3.140625);
  EXPECT_EQ(plain_decode_float(DType::kBF16, 0x0001), 0x1p-133);
  EXPECT_EQ(plain_decode_float(DType::kBF16, 0x7f80), kInfinity);
}

// OCP 8-bit floating point specification, table 2: largest values, subnormals and what is special.
TEST(PlainFormats, EightBitFloats) {
  EXPECT_EQ(plain_decode_float(DType::kF8E4M3, 0x7e), 448.0);
  EXPECT_TRUE(std::isnan(plain_decode_float(DType::kF8E4M3, 0x7f)));
  EXPECT_EQ(plain_decode_float(DType::kF8E4M3, 0x01), 0x1p-9);
  EXPECT_EQ(plain_decode_float(DType::kF8E4M3, 0x08), 0x1p-6);
  EXPECT_EQ(plain_decode_float(DType::kF8E4M3, 0xb8), -1.0);
  EXPECT_EQ(plain_decode_float(DType::kF8E5M2, 0x7b), 57344.0);
  EXPECT_EQ(plain_decode_float(DType::kF8E5M2, 0x7c), kInfinity);
  EXPECT_TRUE(std::isnan(plain_decode_float(DType::kF8E5M2, 0x7d)));
  EXPECT_EQ(plain_decode_float(DType::kF8E5M2, 0x01), 0x1p-16);
}

TEST(PlainFormats, SignedAndUnsignedIntegers) {
  EXPECT_EQ(plain_decode_integer(DType::kI8, 0x80), -128);
  EXPECT_EQ(plain_decode_integer(DType::kI8, 0x7f), 127);
  EXPECT_EQ(plain_decode_integer(DType::kU8, 0xff), 255);
  EXPECT_EQ(plain_decode_integer(DType::kI32, 0xffffffff), -1);
  EXPECT_EQ(plain_decode_integer(DType::kI32, 0x80000000), -2147483648LL);
  EXPECT_EQ(plain_decode_integer(DType::kI64, 0x8000000000000000), kLeast);
  EXPECT_EQ(plain_decode_integer(DType::kBool, 1), 1);
}

// ---- Casts

TEST(PlainCasts, RoundToNearestEven) {
  // bf16 has 8 bits of significand: 1 + 2^-8 lies between 1 and 1 + 2^-7.
  EXPECT_EQ(plain_cast_to_float(DType::kBF16, 1.0 + 0x1p-8), 1.0);
  EXPECT_EQ(plain_cast_to_float(DType::kBF16, 1.0 + 0x1.8p-7), 1.0 + 0x1p-6);
  EXPECT_EQ(plain_cast_to_float(DType::kBF16, 1.0 + 0x1.1p-8), 1.0 + 0x1p-7);
  EXPECT_EQ(plain_cast_to_float(DType::kF16, 2049.0), 2048.0);
  EXPECT_EQ(plain_cast_to_float(DType::kF16, 2051.0), 2052.0);
  EXPECT_EQ(plain_cast_to_float(DType::kF16, 0x1p-25), 0.0);
  EXPECT_EQ(plain_cast_to_float(DType::kF16, 0x1.8p-24), 0x1p-23);
  EXPECT_EQ(plain_cast_to_float(DType::kF32, 16777217.0), 16777216.0);
  EXPECT_EQ(plain_cast_to_float(DType::kF32, int64_t{16777219}), 16777220.0);
}

TEST(PlainCasts, PassThroughSinglePrecision) {
  // 1 + 2^-8 + 2^-30 is nearer to 1 + 2^-7, but f32 makes a tie of it, which goes to even.
  EXPECT_EQ(plain_cast_to_float(DType::kBF16, 1.0 + 0x1p-8 + 0x1p-30), 1.0);
}

TEST(PlainCasts, OverflowAsTheTypeSays) {
  EXPECT_EQ(plain_cast_to_float(DType::kF16, 65519.0), 65504.0);
  EXPECT_EQ(plain_cast_to_float(DType::kF16, 65520.0), kInfinity);
  EXPECT_EQ(plain_cast_to_float(DType::kBF16, -3.4e38), -kInfinity);
  EXPECT_EQ(plain_cast_to_float(DType::kF8E4M3, 1e9), 448.0);
  EXPECT_EQ(plain_cast_to_float(DType::kF8E4M3, -kInfinity), -448.0);
  EXPECT_EQ(plain_cast_to_float(DType::kF8E5M2, kInfinity), 57344.0);
  EXPECT_TRUE(std::isnan(plain_cast_to_float(DType::kF8E4M3, kNan)));
}

TEST(PlainCasts, EveryValueOfASmallFormatIsItself) {
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    for (uint64_t bits = 0; bits < (uint64_t{1} << (8 * bytes_of(type))); ++bits) {
      const double value = plain_decode_float(type, bits);
      if (std::isfinite(value)) {
        ASSERT_EQ(plain_cast_to_float(type, value), value) << name_of(type) << " " << bits;
      }
    }
  }
}

TEST(PlainCasts, ToIntegersTruncateAndSaturate) {
  EXPECT_EQ(plain_cast_to_integer(DType::kI32, -1.9), -1);
  EXPECT_EQ(plain_cast_to_integer(DType::kI8, 200.0), 127);
  EXPECT_EQ(plain_cast_to_integer(DType::kU8, -0.5), 0);
  EXPECT_EQ(plain_cast_to_integer(DType::kU8, -7.0), 0);
  EXPECT_EQ(plain_cast_to_integer(DType::kI64, 1e30), kGreatest);
  EXPECT_EQ(plain_cast_to_integer(DType::kI64, -kInfinity), kLeast);
  EXPECT_EQ(plain_cast_to_integer(DType::kI64, kNan), 0);
  EXPECT_EQ(plain_cast_to_integer(DType::kBool, kNan), 1);
  EXPECT_EQ(plain_cast_to_integer(DType::kBool, -0.0), 0);
  EXPECT_EQ(plain_cast_to_integer(DType::kI8, int64_t{200}), 127);
  EXPECT_EQ(plain_cast_to_integer(DType::kU8, int64_t{-1}), 0);
  EXPECT_EQ(plain_cast_to_integer(DType::kBool, int64_t{-4}), 1);
}

// ---- Functions

TEST(PlainIntegers, WrapAround) {
  const auto i32 = [](PointwiseFn fn, int64_t a, int64_t b) {
    return plain_integer_function(fn, DType::kI32, a, b, 0);
  };
  EXPECT_EQ(i32(PointwiseFn::kAdd, 2147483647, 1), -2147483648LL);
  EXPECT_EQ(i32(PointwiseFn::kMul, 65536, 65537), 65536);
  EXPECT_EQ(i32(PointwiseFn::kNeg, -2147483648LL, 0), -2147483648LL);
  EXPECT_EQ(i32(PointwiseFn::kAbs, -2147483648LL, 0), -2147483648LL);
  EXPECT_EQ(i32(PointwiseFn::kDiv, -2147483648LL, -1), -2147483648LL);
  const auto i64 = [](PointwiseFn fn, int64_t a, int64_t b) {
    return plain_integer_function(fn, DType::kI64, a, b, 0);
  };
  EXPECT_EQ(i64(PointwiseFn::kSub, kLeast, 1), kGreatest);
  EXPECT_EQ(i64(PointwiseFn::kDiv, kLeast, -1), kLeast);
  EXPECT_EQ(i64(PointwiseFn::kRem, kLeast, -1), 0);
}

TEST(PlainIntegers, DivideTowardsZeroAndByZeroToZero) {
  const auto of = [](PointwiseFn fn, int64_t a, int64_t b) {
    return plain_integer_function(fn, DType::kI64, a, b, 0);
  };
  EXPECT_EQ(of(PointwiseFn::kDiv, -7, 2), -3);
  EXPECT_EQ(of(PointwiseFn::kRem, -7, 2), -1);
  EXPECT_EQ(of(PointwiseFn::kDiv, 7, 0), 0);
  EXPECT_EQ(of(PointwiseFn::kRem, 7, 0), 0);
}

TEST(PlainIntegers, Logic) {
  EXPECT_EQ(plain_integer_function(PointwiseFn::kNot, DType::kBool, 1, 0, 0), 0);
  EXPECT_EQ(plain_integer_function(PointwiseFn::kNot, DType::kI32, 5, 0, 0), -6);
  EXPECT_EQ(plain_integer_function(PointwiseFn::kXor, DType::kI64, 12, 10, 0), 6);
  EXPECT_EQ(plain_integer_function(PointwiseFn::kClamp, DType::kI64, 9, 1, 4), 4);
}

TEST(PlainFloats, MaximaAndTestsOfNan) {
  const auto of = [](PointwiseFn fn, double a, double b, double c = 0.0) {
    return plain_float_function(fn, DType::kF32, a, b, c);
  };
  EXPECT_TRUE(std::isnan(of(PointwiseFn::kMax, kNan, 1.0)));
  EXPECT_TRUE(std::isnan(of(PointwiseFn::kMin, 1.0, kNan)));
  EXPECT_TRUE(std::isnan(of(PointwiseFn::kClamp, 1.0, 0.0, kNan)));
  EXPECT_FALSE(plain_float_test(PointwiseFn::kEq, kNan, kNan));
  EXPECT_TRUE(plain_float_test(PointwiseFn::kNe, kNan, kNan));
  EXPECT_FALSE(plain_float_test(PointwiseFn::kGe, kNan, 1.0));
  EXPECT_TRUE(plain_float_test(PointwiseFn::kIsNan, kNan, 0.0));
  EXPECT_FALSE(plain_float_test(PointwiseFn::kIsFinite, -kInfinity, 0.0));
}

TEST(PlainFloats, RoundToTheirType) {
  const auto of = [](PointwiseFn fn, DType type, double a, double b = 0.0, double c = 0.0) {
    return plain_float_function(fn, type, a, b, c);
  };
  EXPECT_EQ(of(PointwiseFn::kAdd, DType::kF32, 16777216.0, 1.0), 16777216.0);
  EXPECT_EQ(of(PointwiseFn::kAdd, DType::kF64, 16777216.0, 1.0), 16777217.0);
  EXPECT_EQ(of(PointwiseFn::kMul, DType::kF32, 1e30, 1e30), kInfinity);
  EXPECT_EQ(of(PointwiseFn::kRound, DType::kF32, 2.5), 2.0);
  EXPECT_EQ(of(PointwiseFn::kRem, DType::kF32, -7.5, 2.0), -1.5);
  EXPECT_EQ(of(PointwiseFn::kRsqrt, DType::kF32, 4.0), 0.5);
  EXPECT_EQ(of(PointwiseFn::kFma, DType::kF64, 1.0 + 0x1p-52, 1.0 - 0x1p-52, -1.0), -0x1p-104);
}

// The first of the four words of the known answer for a counter and a key of 0 in the authors'
// implementation, Random123 (kat_vectors, philox 4x32 10): 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
TEST(PlainPhilox, GivesTheKnownAnswer) {
  EXPECT_EQ(plain_philox_uniform(0, 0), static_cast<double>(0x6627e8) * 0x1p-24);
  EXPECT_EQ(plain_philox_uniform(0, 1), static_cast<double>(0xe169c5) * 0x1p-24);
  EXPECT_EQ(plain_philox_uniform(0, 2), static_cast<double>(0xbc57ac) * 0x1p-24);
  EXPECT_EQ(plain_philox_uniform(0, 3), static_cast<double>(0x9b00db) * 0x1p-24);
}

}  // namespace sinter::plain_number_test
