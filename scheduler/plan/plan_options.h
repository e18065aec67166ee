#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/families/family.h"
#include "scheduler/plan/tuned_choices.h"

namespace sinter {

struct Plan;

/// Fields of a schedule a user insists on. What is left empty, the scheduler chooses. A pin that no
/// legal schedule meets is an error, never a silent change.
struct SchedulePin {
  std::optional<Schedule> schedule{};  ///< The whole schedule; fields beside it must agree.
  std::optional<std::string> family{};
  std::optional<int64_t> threads_per_row{};
  std::optional<int64_t> rows_per_block{};
  std::optional<int64_t> vector_width{};
  std::optional<int64_t> unroll{};
  std::optional<Residency> residency{};  ///< Of all persistent values, at least one.

  [[nodiscard]] bool matches(const Schedule& candidate) const;
  [[nodiscard]] std::string text() const;
  friend bool operator==(const SchedulePin&, const SchedulePin&) = default;
};

/// A value that goes through memory: no kernel that reads it makes it too. It is named, or given by
/// its id in the simplified graph, "%v12"; a name comes first.
struct CutPin {
  std::string value{};
  friend bool operator==(const CutPin&, const CutPin&) = default;
};

/// Values, by name or id as above, whose ops run together in one kernel, with all that lies between
/// them; in two where a segment's rows and columns take one each, or its partial results another.
struct GroupPin {
  std::vector<std::string> values{};
  friend bool operator==(const GroupPin&, const GroupPin&) = default;
};

/// When a graph becomes several segments.
enum class Cutting : uint8_t {
  kFaster,  ///< Also where that is predicted to be faster than what runs it whole.
  kNeeded,  ///< Only if nothing runs it whole.
};

struct PlanOptions {
  FamilySet families = scheduling_families();
  SchedulePin pin{};
  bool simplify =
      true;  ///< Run the simplification passes first, not only remove what is not needed.
  Cutting cutting = Cutting::kFaster;
  /// How the graph is cut, whatever takes least time. Pins that contradict each other, or that
  /// nothing can obey, are errors. A graph with such pins is planned in segments, whose schedules
  /// cannot be pinned.
  std::vector<CutPin> cuts{};
  std::vector<GroupPin> joins{};
  /// A plan of the same graph for the same device at other sizes, whose cuts and schedules are
  /// taken over instead of chosen (scheduler/planning/follow_plan.h). Not beside pins.
  std::shared_ptr<const Plan> like{};
  /// Schedules measured before (runtime/tuning/), for segments of the plan that they are about.
  /// Each is taken or, with the reason on record, left. Not looked at where a plan is followed: its
  /// schedules are.
  std::shared_ptr<const TunedChoices> tuned{};
  /// Leaves the indices of every take in the workspace, so that Executable::check_indices() can
  /// tell which were outside of their axis. Kernels store them beside what they store anyhow.
  bool check_indices = false;
};

}  // namespace sinter
