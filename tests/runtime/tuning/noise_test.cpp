#include "runtime/tuning/noise.h"

#include <gmock/gmock.h>

#include <cmath>

namespace sinter::noise_test {

using ::testing::DoubleNear;

/// Samples that lie evenly within `spread` about `middle`.
std::vector<double> around(double middle, double spread, int count = 15) {
  std::vector<double> out;
  for (int i = 0; i < count; ++i)
    out.push_back(middle + spread * (2.0 * i / static_cast<double>(count - 1) - 1.0));
  return out;
}

TEST(NoiseTest, AFewLongSamplesMoveNothing) {
  std::vector<double> samples = around(100.0, 2.0);
  const SampleSummary quiet = summarize(samples);
  samples[0] = 5000.0;  // The lowest one, so that the median moves by one place.
  samples[14] = 9000.0;
  const SampleSummary disturbed = summarize(samples);
  EXPECT_DOUBLE_EQ(quiet.median_us, 100.0);
  EXPECT_NEAR(disturbed.median_us, 100.0, 0.3);
  EXPECT_NEAR(disturbed.error_us, quiet.error_us, 0.5 * quiet.error_us);
  EXPECT_EQ(quiet.samples, 15);
}

TEST(NoiseTest, TheErrorOfAMedianFallsWithTheRootOfTheSamples) {
  const double few = summarize(around(100.0, 20.0, 101)).error_us;
  const double many = summarize(around(100.0, 20.0, 101 * 16)).error_us;
  EXPECT_NEAR(few / many, 4.0, 0.05);
  // Samples that lie evenly within 20 us deviate by 10 us in the median.
  EXPECT_THAT(few, DoubleNear(1.2533 * 1.4826 * 10.0 / std::sqrt(101.0), 0.02));
}

TEST(NoiseTest, SamplesOfOneTickAreNotExact) {
  const SampleSummary same = summarize(std::vector<double>(15, 8.0));
  EXPECT_NEAR(same.error_us, 1.2533 * kEventResolutionUs / std::sqrt(12.0) / std::sqrt(15.0), 1e-9);
}

TEST(NoiseTest, FasterMeansByMoreThanTheNoise) {
  const SampleSummary incumbent{.median_us = 100.0, .error_us = 1.0, .samples = 15};
  const auto challenger = [](double median_us, double error_us) {
    return SampleSummary{.median_us = median_us, .error_us = error_us, .samples = 15};
  };
  // Three standard errors of a difference of two medians of 1 us each.
  EXPECT_DOUBLE_EQ(noise_us(incumbent, challenger(90.0, 1.0)), 3.0 * std::sqrt(2.0));
  EXPECT_FALSE(is_faster(challenger(95.8, 1.0), incumbent));
  EXPECT_TRUE(is_faster(challenger(95.7, 1.0), incumbent));
}

TEST(NoiseTest, FasterMeansByOnePercentAtLeast) {
  const SampleSummary incumbent{.median_us = 200.0, .error_us = 0.01, .samples = 15};
  SampleSummary challenger = incumbent;
  challenger.median_us = 198.1;
  EXPECT_FALSE(is_faster(challenger, incumbent));
  challenger.median_us = 197.9;
  EXPECT_TRUE(is_faster(challenger, incumbent));
}

}  // namespace sinter::noise_test
