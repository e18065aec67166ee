#pragma once

#include <cstddef>
#include <vector>

#include "benchmarks/cost_model/timed_problems.h"

namespace sinter::bench {

/// Schedules of one problem to time.
struct ToTime {
  const TimedProblem* problem = nullptr;
  std::vector<Schedule> schedules;
};

/// What an ablation has to know and the set does not: of each problem, the schedules that the
/// planner ranks first, `best` of them, with all terms and with each term off alone, of all that
/// the families offer. Problems of which all are timed are left out. Where one is not, those of the
/// timed that the model chooses and that is fastest are listed too: times compare within one run.
std::vector<ToTime> untimed_choices(const TimedSet& set, size_t best);

}  // namespace sinter::bench
