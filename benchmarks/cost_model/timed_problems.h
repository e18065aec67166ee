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
  std::vector<TimedProblem> problems;  ///< With two timed schedules or more; cells last, by name.
};

/// Reads a list of result files: an object with "device" and, each where there are any, "suite"
/// (files of sweep_suite.py), "cells" (the same, of graphs in files) and "canned" (files of
/// sinter_gpu_suite). Rows that failed, or are of schedules no longer legal or expected to spill,
/// are left out. `benchmarks` is the folder of that name: it has the graphs and the result files.
/// Throws std::runtime_error for what cannot be read.
TimedSet read_timed_set(const std::string& list, const std::string& benchmarks);

/// Facts of a row that sinter_gpu_suite wrote ("fusion", "rows", "cols"). Nothing: no single
/// segment.
std::optional<SegmentFacts> facts_of_canned(const nlohmann::json& row);

/// Predicted microseconds under other constants.
Prediction predicted(const TimedProblem& problem, const TimedSchedule& timed,
                     const DeviceLimits& limits);

}  // namespace sinter::bench
