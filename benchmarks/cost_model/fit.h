#pragma once

#include <string>
#include <vector>

#include "benchmarks/cost_model/timed_problems.h"
#include "scheduler/budgets/cost_constants.h"

namespace sinter::bench {

/// A constant that a fit changed.
struct FittedConstant {
  std::string name;
  double before = 0.0;
  double after = 0.0;
};

struct FitResult {
  CostConstants constants;
  std::vector<FittedConstant> changes;
  double loss_before = 0.0;
  double loss_after = 0.0;
  size_t predictions = 0;  ///< How many were made.
};

/// Fits the constants of origin kFitted to the timed schedules by coordinate descent from
/// `set.limits.cost`. One problem of kHeldOutOf takes no part. The rest are kFolds folds, and a
/// step is taken only if it lowers the loss of all together and raises that of no fold: what helps
/// some problems at the cost of others is taken for noise. A constant that no timed schedule
/// depends on keeps its value. The result has three significant digits, and is a fixed point: from
/// it, the same fit changes nothing.
///
/// The loss of a problem is the mean square of log(measured / predicted), and kChoiceWeight times
/// the expected log(chosen / fastest), were predictions off by kNear.
FitResult fit(const TimedSet& set);

inline constexpr size_t kHeldOutOf = 4;
inline constexpr size_t kFolds = 3;

/// The two parts of a set: what fit() sees, and what it does not.
TimedSet part_of(const TimedSet& set, bool held_out);

}  // namespace sinter::bench
