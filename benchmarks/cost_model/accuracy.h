#pragma once

#include <cstddef>
#include <vector>

#include "benchmarks/cost_model/timed_problems.h"

namespace sinter::bench {

/// How predictions of one problem's schedules compare with their times.
struct ProblemAccuracy {
  double error = 0.0;  ///< Mean of |log(measured / predicted)|.
  /// log(time of the schedule that the planner chooses / shortest time), of those that do not
  /// spill: re-planning takes the next best for one that does.
  double behind = 0.0;
  double first_behind = 0.0;  ///< The same of all schedules, as they are before compilation.
  size_t schedules = 0;
};

/// Of each problem, under the constants of `limits`.
std::vector<ProblemAccuracy> accuracy_of(const TimedSet& set, const DeviceLimits& limits);

/// Means over problems, in per cent: of errors, each schedule counts once; of the choice, each
/// problem does.
struct Accuracy {
  double error = 0.0;
  double behind = 0.0;
  double first_behind = 0.0;
};

Accuracy mean_of(const std::vector<ProblemAccuracy>& problems);

}  // namespace sinter::bench
