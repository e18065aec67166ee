#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sinter {

/// The fastest of the schedules that were measured for one segment.
struct TunedSchedule {
  uint64_t segment = 0;     ///< structural_hash() of the segment's graph.
  std::string schedule{};   ///< .sched text, as it was stored.
  double tuned_us = 0.0;    ///< Median time, including the finish of partial results.
  double untuned_us = 0.0;  ///< Median time of the planned schedule, in the same rotation.
  int64_t samples = 0;      ///< Samples of each median.
  friend bool operator==(const TunedSchedule&, const TunedSchedule&) = default;
};

/// Schedules that a caller measured before and passes to plan(), which measures nothing. They are
/// data like any other argument: equal ones give equal plans.
struct TunedChoices {
  std::string source{};  ///< Origin named in the plan's decisions: a database's path.
  std::vector<TunedSchedule> schedules{};
  [[nodiscard]] bool empty() const { return schedules.empty(); }
  friend bool operator==(const TunedChoices&, const TunedChoices&) = default;
};

/// The question of decisions about tuned schedules.
inline constexpr std::string_view kTunedQuestion = "is a schedule taken that was measured before";

}  // namespace sinter
