#pragma once

#include <cstddef>
#include <vector>

#include "scheduler/families/family.h"

namespace sinter::bench {

/// Schedules of one problem that were timed, each as the model sees it today.
struct TimedCandidates {
  std::vector<ProposedSchedule> candidates;
  std::vector<double> us;  ///< Of candidates; the shortest where one was timed several times.
};

/// Indices of two of them, of which there is one at least.
struct TimedChoice {
  size_t chosen = 0;  ///< By the planner, as rank_schedules() orders them.
  size_t fastest = 0;
};

TimedChoice choice_of(const TimedCandidates& timed, const FamilySet& families);

}  // namespace sinter::bench
