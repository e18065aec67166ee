#include "runtime/tuning/noise.h"

#include <algorithm>
#include <cmath>

#include "runtime/driver/event_timer.h"

namespace sinter {
namespace {

/// Standard deviation over median absolute deviation of a normal distribution: 1 over its 75th
/// percentile.
constexpr double kSigmaOfDeviation = 1.4826;
/// Standard error of a median over that of a mean for a normal distribution, for many samples: the
/// root of half of pi.
constexpr double kErrorOfMedian = 1.2533;

}  // namespace

SampleSummary summarize(const std::vector<double>& samples_us) {
  const double middle = median(samples_us);
  std::vector<double> deviations;
  for (const double sample : samples_us) deviations.push_back(std::abs(sample - middle));
  const double scatter = kSigmaOfDeviation * median(std::move(deviations));
  // A reading anywhere in a tick deviates by the tick over the root of 12.
  const double reading = kEventResolutionUs / std::sqrt(12.0);
  return {.median_us = middle,
          .error_us = kErrorOfMedian * std::max(scatter, reading) /
                      std::sqrt(static_cast<double>(samples_us.size())),
          .samples = static_cast<int64_t>(samples_us.size())};
}

double noise_us(const SampleSummary& incumbent, const SampleSummary& challenger) {
  return std::max(kNoiseSigmas * std::hypot(incumbent.error_us, challenger.error_us),
                  kNoiseFloor * incumbent.median_us);
}

bool is_faster(const SampleSummary& challenger, const SampleSummary& incumbent) {
  return incumbent.median_us - challenger.median_us > noise_us(incumbent, challenger);
}

}  // namespace sinter
