#include "fusion_ir/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sinter::dtype_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(DTypeTest, NamesRoundTrip) {
  for (const DType type : kAllDTypes) EXPECT_EQ(dtype_from_name(name_of(type)), type);
  EXPECT_EQ(dtype_from_name("float"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DTypeTest, ComputeTypesAreFixedPoints) {
  for (const DType type : kAllDTypes) {
    EXPECT_EQ(compute_type(compute_type(type)), compute_type(type)) << name_of(type);
    EXPECT_EQ(is_storage_only(type), is_float(type) && compute_type(type) != type);
  }
  EXPECT_EQ(compute_type(DType::kBF16), DType::kF32);
  EXPECT_EQ(compute_type(DType::kU8), DType::kI32);
  EXPECT_EQ(compute_type(DType::kBool), DType::kBool);
}

/// Every bit pattern of a type decodes to a value that rounds to itself and encodes to the same
/// bits; NaN patterns come back as some NaN.
void expect_all_patterns_round_trip(DType type) {
  const uint64_t patterns = uint64_t{1} << (8 * bytes_of(type));
  int mismatches = 0;
  for (uint64_t bits = 0; bits < patterns; ++bits) {
    const double value = decode(type, bits);
    const uint64_t again = encode(type, value);
    const bool same = std::isnan(value) ? std::isnan(decode(type, again))
                                        : again == bits && round_to(type, value) == value;
    // E5M2 infinities can be loaded, but conversions saturate.
    const bool saturates = type == DType::kF8E5M2 && std::isinf(value);
    if (!same && !saturates && ++mismatches < 5) {
      ADD_FAILURE() << name_of(type) << " bits " << bits << " -> " << value << " -> " << again;
    }
  }
  EXPECT_EQ(mismatches, 0);
}

TEST(DTypeTest, EveryPatternOfSmallTypesRoundTrips) {
  for (const DType type :
       {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI8, DType::kU8}) {
    expect_all_patterns_round_trip(type);
  }
}

/// Rounding picks the nearer of two neighbours and the even one at the midpoint. Neighbours come
/// from decode alone, so this is independent of round_to's arithmetic.
void expect_nearest_even_between_neighbours(DType type) {
  const uint64_t half = uint64_t{1} << (8 * bytes_of(type) - 1);
  for (uint64_t bits = 0; bits + 1 < half; ++bits) {
    const double low = decode(type, bits);
    const double high = decode(type, bits + 1);
    if (!std::isfinite(low) || !std::isfinite(high)) break;
    const double middle = low + (high - low) / 2;
    const double even = bits % 2 == 0 ? low : high;
    // One f32 step either side of the midpoint: values beyond f32 would round twice, as devices do.
    const auto below =
        static_cast<double>(std::nextafter(static_cast<float>(middle), static_cast<float>(low)));
    const auto above =
        static_cast<double>(std::nextafter(static_cast<float>(middle), static_cast<float>(high)));
    ASSERT_EQ(round_to(type, middle), even) << name_of(type) << " bits " << bits;
    ASSERT_EQ(round_to(type, -middle), -even) << name_of(type) << " bits " << bits;
    ASSERT_EQ(round_to(type, below), low) << name_of(type) << " bits " << bits;
    ASSERT_EQ(round_to(type, above), high) << name_of(type) << " bits " << bits;
  }
}

TEST(DTypeTest, RoundsToNearestTiesToEven) {
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    expect_nearest_even_between_neighbours(type);
  }
}

TEST(DTypeTest, StorageTypesRoundThroughF32) {
  // Just above the midpoint of 1 and 1 + 2^-10. In f32 the excess of 2^-30 is lost, which leaves a
  // tie that goes to even; rounding once would give 1 + 2^-10. Devices convert in the same way.
  EXPECT_EQ(round_to(DType::kF16, 1.0 + 0x1p-11 + 0x1p-30), 1.0);
  EXPECT_EQ(round_to(DType::kF16, 1.0 + 0x1p-11 + 0x1p-23), 1.0 + 0x1p-10);
}

TEST(DTypeTest, OverflowSaturatesOnlyIn8Bits) {
  EXPECT_EQ(round_to(DType::kF16, 65519.0), 65504.0);
  EXPECT_EQ(round_to(DType::kF16, 65520.0), kInfinity);
  EXPECT_EQ(round_to(DType::kBF16, -3.4e38), -kInfinity);
  EXPECT_EQ(round_to(DType::kF32, 1e39), kInfinity);
  EXPECT_EQ(round_to(DType::kF8E4M3, 1e30), 448.0);
  EXPECT_EQ(round_to(DType::kF8E4M3, -kInfinity), -448.0);
  EXPECT_EQ(round_to(DType::kF8E5M2, kInfinity), 57344.0);
  EXPECT_TRUE(std::isnan(round_to(DType::kF8E4M3, kNan)));
  EXPECT_TRUE(std::isnan(decode(DType::kF8E4M3, 0x7f)));
  EXPECT_EQ(decode(DType::kF8E4M3, 0x7e), 448.0);
  EXPECT_EQ(decode(DType::kF8E5M2, 0x7c), kInfinity);
}

TEST(DTypeTest, SignedZeroSurvives) {
  for (const DType type :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    EXPECT_TRUE(std::signbit(decode(type, encode(type, -0.0)))) << name_of(type);
    EXPECT_FALSE(std::signbit(decode(type, encode(type, 0.0)))) << name_of(type);
  }
}

TEST(DTypeTest, IntegersTruncateAndSaturate) {
  EXPECT_EQ(round_to(DType::kI32, 2.9), 2.0);
  EXPECT_EQ(round_to(DType::kI32, -2.9), -2.0);
  EXPECT_EQ(round_to(DType::kI8, 200.0), 127.0);
  EXPECT_EQ(round_to(DType::kI8, -200.0), -128.0);
  EXPECT_EQ(round_to(DType::kU8, -1.0), 0.0);
  EXPECT_EQ(round_to(DType::kU8, 256.0), 255.0);
  EXPECT_EQ(round_to(DType::kI32, kNan), 0.0);
  EXPECT_EQ(round_to(DType::kI64, kInfinity), 0x1p63);
  EXPECT_EQ(encode(DType::kI64, kInfinity), 0x7fff'ffff'ffff'ffffU);
  EXPECT_EQ(encode(DType::kI64, -kInfinity), 0x8000'0000'0000'0000U);
  EXPECT_EQ(round_to(DType::kBool, kNan), 1.0);
  EXPECT_EQ(round_to(DType::kBool, 0.25), 1.0);
  EXPECT_EQ(round_to(DType::kBool, -0.0), 0.0);
}

TEST(DTypeTest, RoundoffAndRangeAgreeWithTheEncoding) {
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    const uint64_t one = encode(type, 1.0);
    EXPECT_EQ(2 * unit_roundoff(type), decode(type, one + 1) - 1.0) << name_of(type);
    EXPECT_EQ(smallest_subnormal(type), decode(type, 1)) << name_of(type);
    const double next = decode(type, encode(type, largest_finite(type)) + 1);
    EXPECT_FALSE(std::isfinite(next)) << name_of(type);
  }
  EXPECT_EQ(2 * unit_roundoff(DType::kF32),
            static_cast<double>(std::numeric_limits<float>::epsilon()));
  EXPECT_EQ(2 * unit_roundoff(DType::kF64), std::numeric_limits<double>::epsilon());
  EXPECT_EQ(smallest_subnormal(DType::kF64), std::numeric_limits<double>::denorm_min());
}

TEST(DTypeTest, ExactCastsAreThoseThatKeepEveryValue) {
  const auto is_kept = [](DType to, double value) {
    return std::isnan(value) ? is_float(to) : round_to(to, value) == value;
  };
  for (const DType from : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI8,
                           DType::kU8, DType::kBool}) {
    const uint64_t patterns = uint64_t{1} << (8 * bytes_of(from));
    for (const DType to : kAllDTypes) {
      if (to == from) continue;
      bool keeps_all = true;
      for (uint64_t bits = 0; bits < patterns && keeps_all; ++bits) {
        keeps_all = is_kept(to, decode(from, bits));
      }
      EXPECT_EQ(casts_exactly(from, to), keeps_all) << name_of(from) << " to " << name_of(to);
    }
  }
}

// Decides the question by trying every value of the types that have few.
TEST(DTypeTest, CastsExactlyMeansThatEveryValueSurvives) {
  for (const DType from : kAllDTypes) {
    const int64_t bits = 8 * bytes_of(from);
    if (bits > 16) continue;
    const uint64_t patterns = from == DType::kBool ? 2 : uint64_t{1} << static_cast<uint64_t>(bits);
    for (const DType to : kAllDTypes) {
      // A cast to the same type is none: it does not even saturate the infinities of f8e5m2.
      if (from == to) continue;
      bool survives = true;
      for (uint64_t pattern = 0; pattern < patterns; ++pattern) {
        const double value = decode(from, pattern);
        const double cast = round_to(to, value);
        survives &= std::isnan(value) ? std::isnan(cast) : cast == value;
      }
      EXPECT_EQ(casts_exactly(from, to), survives) << name_of(from) << " to " << name_of(to);
    }
  }
  EXPECT_TRUE(casts_exactly(DType::kI32, DType::kF64));
  EXPECT_FALSE(casts_exactly(DType::kI32, DType::kF32));
  EXPECT_FALSE(casts_exactly(DType::kI64, DType::kF64));
  EXPECT_FALSE(casts_exactly(DType::kF64, DType::kF32));
}

TEST(DTypeTest, IntegerTypesHoldTheirRange) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(holds_integer(DType::kI64, kLowest));
  EXPECT_TRUE(holds_integer(DType::kI32, 2'147'483'647));
  EXPECT_FALSE(holds_integer(DType::kI32, 2'147'483'648));
  EXPECT_TRUE(holds_integer(DType::kI8, -128));
  EXPECT_FALSE(holds_integer(DType::kI8, 128));
  EXPECT_TRUE(holds_integer(DType::kU8, 255));
  EXPECT_FALSE(holds_integer(DType::kU8, -1));
  EXPECT_TRUE(holds_integer(DType::kBool, 1));
  EXPECT_FALSE(holds_integer(DType::kBool, 2));
  EXPECT_FALSE(holds_integer(DType::kF32, 0));
}

}  // namespace sinter::dtype_test
