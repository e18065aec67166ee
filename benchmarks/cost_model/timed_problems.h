#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/analysis/segment_facts.h"
#include "scheduler/budgets/device_limits.h"
#include "scheduler/families/family.h"
#include "scheduler/schedule/schedule.h"

namespace sinter::bench {

/// A schedule that was timed, as the model sees it today.
struct TimedSchedule {
  Schedule schedule;
  ResourceEstimate estimate;
  const Family* family = nullptr;
  double us = 0.0;  ///< The shortest where it was timed several times.
};

/// One kernel at one size, and the schedules it was timed with.
struct TimedProblem {
  std::string name;    ///< "softmax bf16 8192 x 4096".
  nlohmann::json key;  ///< Its "kernel", "type" and "shape", or "fusion", "rows" and "cols".
  SegmentFacts facts;
  std::vector<TimedSchedule> timed;
  /// Those that spill, which the estimate does not expect. They count where the model chooses one,
  /// but no prediction of one is compared with its time.
  std::vector<TimedSchedule> spilled{};
};

/// What a device was timed with.
struct TimedSet {
  DeviceLimits limits;
  FamilySet families;
  std::vector<TimedProblem> problems;  ///< With two timed schedules or more, by name.
};

/// Reads a list of result files: an object with "device", "suite" (files of sweep_suite.py) and
/// "canned" (files of sinter_gpu_suite), names below `results`. `suite` is the folder of the
/// suite's graphs. Rows that failed, or are of schedules no longer legal or expected to spill, are
/// left out.
/// Throws std::runtime_error for what cannot be read.
TimedSet read_timed_set(const std::string& list, const std::string& suite,
                        const std::string& results);

/// Facts of a row that sinter_gpu_suite wrote ("fusion", "rows", "cols"). Nothing: no single
/// segment.
std::optional<SegmentFacts> facts_of_canned(const nlohmann::json& row);

/// Predicted microseconds under other constants.
Prediction predicted(const TimedProblem& problem, const TimedSchedule& timed,
                     const DeviceLimits& limits);

}  // namespace sinter::bench
