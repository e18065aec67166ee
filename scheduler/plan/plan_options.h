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

/// Fields of a schedule that the caller requires. The scheduler chooses the fields left empty. If
/// no legal schedule satisfies a pin, that is an error; pins are never ignored.
struct SchedulePin {
  std::optional<Schedule> schedule{};  ///< The whole schedule; other pinned fields must agree.
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

/// A value that goes through memory: no kernel that reads it also makes it. It is given by name, or
/// by its id in the simplified graph, "%v12"; a name takes precedence.
struct CutPin {
  std::string value{};
  friend bool operator==(const CutPin&, const CutPin&) = default;
};

/// Values, by name or id as above, whose ops run together in one kernel, with all ops on paths
/// between them. They run in two kernels if a segment's rows and columns, or its partial results,
/// take a kernel each.
struct GroupPin {
  std::vector<std::string> values{};
  friend bool operator==(const GroupPin&, const GroupPin&) = default;
};

/// When a graph is cut into several segments.
enum class Cutting : uint8_t {
  kFaster,  ///< Also if several kernels are predicted to be faster than one.
  kNeeded,  ///< Only if no kernel runs the whole graph.
};

/// How contractions are computed.
enum class Contracting : uint8_t {
  kFaster,    ///< The way that is predicted to be faster for the contraction alone.
  kKernels,   ///< By kernels that contract, wherever a family offers one.
  kElements,  ///< Element by element: by pointwise ops and a reduction.
};

struct PlanOptions {
  FamilySet families = scheduling_families();
  SchedulePin pin{};
  bool simplify = true;  ///< Run the simplification passes first; else only remove unused ops.
  Cutting cutting = Cutting::kFaster;
  Contracting contracting = Contracting::kFaster;
  /// How the graph is cut, regardless of predicted time. Pins that contradict each other, or that
  /// no plan can satisfy, are errors. A graph with such pins is planned in segments, whose
  /// schedules cannot be pinned.
  std::vector<CutPin> cuts{};
  std::vector<GroupPin> joins{};
  /// A plan of the same graph for the same device at other sizes, whose cuts and schedules are
  /// reused (scheduler/planning/follow_plan.h). Cannot be combined with pins.
  std::shared_ptr<const Plan> like{};
  /// Schedules that were measured before (runtime/tuning/), for segments of the plan. Each is
  /// taken, or left with a recorded reason. Ignored if the plan follows another one (`like`), whose
  /// schedules it takes.
  std::shared_ptr<const TunedChoices> tuned{};
  /// Leaves the indices of every take in the workspace, so that Executable::check_indices() can
  /// report those that were outside of their axis. Kernels store them together with their other
  /// outputs.
  bool check_indices = false;
  /// Scales of rows may move behind contractions, where that is predicted to be faster: sums of
  /// (x r) w become sums of x w, times r, as behind an RMS or L2 norm without weights. What the
  /// graph rounds after scaling is then not rounded, and sums of x w may overflow where those of (x
  /// r) w do not.
  bool defer_scales = false;
  /// Kernels may be chosen whose blocks wait for each other through global memory (exchange
  /// messages). Their launch is cooperative: it is refused where not all blocks can run at the same
  /// time, as beside a kernel that never ends or on fewer SMs than were planned for.
  bool teams = true;
};

}  // namespace sinter
