#pragma once

#include <cstdint>
#include <vector>

namespace sinter {

/// What repeated timings of one schedule say.
struct SampleSummary {
  double median_us = 0.0;
  double error_us = 0.0;  ///< Standard error of the median.
  int64_t samples = 0;
  friend bool operator==(const SampleSummary&, const SampleSummary&) = default;
};

/// Median and its standard error, from the median absolute deviation: a few samples that an
/// interrupt or another process has lengthened move neither. At least one sample.
SampleSummary summarize(const std::vector<double>& samples_us);

/// How much lower a challenger's median must be to count as faster: kNoiseSigmas standard errors of
/// the difference, and kNoiseFloor of the incumbent's median at least.
double noise_us(const SampleSummary& incumbent, const SampleSummary& challenger);

/// True if the challenger's median is lower by more than the noise.
bool is_faster(const SampleSummary& challenger, const SampleSummary& incumbent);

/// Standard errors that count as noise. Three are exceeded by chance in 1 of 740 comparisons of
/// equal schedules; each is made twice before a challenger wins.
inline constexpr double kNoiseSigmas = 3.0;

/// Share of the incumbent's time that counts as noise however little the samples scatter. A choice,
/// not a measurement: less is not worth another kernel than the one that every untuned plan runs,
/// and is within what separates two runs of one benchmark (docs/performance.md).
inline constexpr double kNoiseFloor = 0.01;

/// Resolution of event timestamps in microseconds (CUDA driver API, cuEventElapsedTime: "around 0.5
/// microseconds"). Samples that all fell on one tick are not exact because of that.
inline constexpr double kEventResolutionUs = 0.5;

}  // namespace sinter
