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

/// Fits the constants of origin kFitted to the timed schedules of one card or several by coordinate
/// descent from the constants of the first. The problems of each card are kFolds folds. A step is
/// taken only if it lowers the loss of all together, raises that of no fold, and raises neither the
/// error nor the choice of a card: what helps some problems at the cost of others is taken for
/// noise. A constant that no timed schedule depends on keeps its value. Values have three
/// significant digits. The result is a fixed point: from it, the same fit changes nothing.
///
/// The loss of a problem is the mean square of log(measured / predicted), and kChoiceWeight times
/// the expected log(chosen / fastest), were predictions off by kNear.
FitResult fit(const std::vector<TimedSet>& sets);

inline constexpr size_t kHeldOutOf = 4;
inline constexpr size_t kFolds = 3;

/// The two parts of a set, of which one problem in kHeldOutOf is held out of a fit.
TimedSet part_of(const TimedSet& set, bool held_out);

}  // namespace sinter::bench
