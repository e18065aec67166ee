#include "fusion_ir/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "fusion_ir/op.h"

namespace sinter::philox_test {

using Words = std::array<uint32_t, 4>;

/// Known answers of philox4x32 with 10 rounds that Random123 (DEShaw Research) is shipped with.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffff'ffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AUniformNumberIsAWordOfTheIndexesBlock) {
  const int64_t seed = 0x299f'31d0'a409'3822;
  for (const int64_t index : {int64_t{0}, int64_t{5}, int64_t{1} << 40, int64_t{-1}}) {
    const auto block = static_cast<uint64_t>(index) / 4;
    const Words words =
        philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32U), 0, 0},
                   {0xa4093822, 0x299f31d0});
    const uint32_t word = words[static_cast<uint64_t>(index) % 4];
    EXPECT_EQ(philox_uniform(seed, index), std::floor(word / 256.0) / 16777216.0) << index;
  }
  EXPECT_EQ(evaluate_random(PointwiseFn::kPhiloxUniform, seed, 5), philox_uniform(seed, 5));
}

TEST(Philox, UniformNumbersAreF32BelowOneAndSpreadEvenly) {
  constexpr int kCount = 1 << 16;
  constexpr int kBins = 16;
  std::array<int, kBins> bins{};
  double sum = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double x = philox_uniform(42, i);
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    ASSERT_EQ(x, static_cast<double>(static_cast<float>(x)));
    ++bins[static_cast<size_t>(x * kBins)];
    sum += x;
  }
  // Six standard deviations: of a mean of uniform numbers, and of a count in a bin.
  EXPECT_NEAR(sum / kCount, 0.5, 6.0 / std::sqrt(12.0 * kCount));
  for (const int count : bins) EXPECT_NEAR(count, kCount / kBins, 6.0 * std::sqrt(kCount / kBins));
}

TEST(Philox, SeedsDifferInEitherHalf) {
  EXPECT_NE(philox_uniform(0, 0), philox_uniform(1, 0));
  EXPECT_NE(philox_uniform(0, 0), philox_uniform(int64_t{1} << 32, 0));
  EXPECT_NE(philox_uniform(0, 0), philox_uniform(std::numeric_limits<int64_t>::min(), 0));
}

}  // namespace sinter::philox_test
