#pragma once

#include <string>
#include <vector>

#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// An extent and the sizes it is planned at.
struct SweepAxis {
  std::string extent;
  std::vector<int64_t> sizes;
  friend bool operator==(const SweepAxis&, const SweepAxis&) = default;
};

/// The kind of a plan: the family that runs it, or "multi_wave + column" if rows and columns have a
/// kernel each. A kernel that finishes partial results is not named.
std::string kind_of(const Plan& plan);

/// What plan() chooses at one set of extents.
struct SweepCell {
  std::string kind{};         ///< Empty if no family takes the fusion at these extents.
  Schedule schedule{};        ///< Of the first kernel.
  double predicted_us = 0.0;  ///< Of all kernels.
  double sol = 0.0;  ///< Time to stream inputs and outputs once, divided by the predicted time.
  Error refusal{};   ///< Why there is no schedule.
};

/// The kinds of schedule chosen over one or two extents; the others are fixed.
struct Sweep {
  std::string fusion;
  std::string device;
  std::vector<SweepAxis> axes;     ///< The first is horizontal in a map, the second vertical.
  std::vector<SweepCell> cells;    ///< Row by row of the map.
  std::vector<std::string> kinds;  ///< Kinds chosen in some cell, in the order of the family set.

  [[nodiscard]] size_t lines() const { return axes.size() < 2 ? 1 : axes[1].sizes.size(); }
  [[nodiscard]] const SweepCell& at(size_t column, size_t line) const {
    return cells[line * axes.front().sizes.size() + column];
  }
};

/// Maximum number of cells of one sweep; planning one takes milliseconds.
inline constexpr int64_t kMaxSweepCells = 4096;

/// Plans a fusion at every combination of the axes' sizes; `extents` gives the others. A pin holds
/// for all cells. A pure function, as plan() is.
///
/// Errors: InvalidArgument (no axis, or more than two; one without sizes, or twice; an extent that
/// the fusion does not have), ResourceExhausted (more than kMaxSweepCells), and, if no cell has a
/// schedule, the error of the first cell.
Result<Sweep> sweep(const Fusion& fusion, const ExtentValues& extents, const DeviceLimits& limits,
                    std::vector<SweepAxis> axes, const PlanOptions& options = {});

/// The size of one extent, nearest to the present one, at which another kind wins. `kind` is empty
/// if no family takes the fusion at that size.
struct NearestChange {
  std::string extent;
  int64_t size = 0;
  std::string kind;
  friend bool operator==(const NearestChange&, const NearestChange&) = default;
};

/// Extents are changed by at most this factor in the search for another kind.
inline constexpr int64_t kChangeFactor = 64;

/// The changes of extents that change the kind of a plan: for every symbolic extent the nearest
/// smaller and larger size at which another kind wins, if there is one. Sizes are probed at half
/// octaves and then bisected to about a hundredth, so a range narrower than that may be missed;
/// every reported size was planned. Sizes keep the remainder of the present size, so that the
/// alignment of rows does not change. Empty for a fusion that cannot be planned or that is pinned.
std::vector<NearestChange> nearest_changes(const Fusion& fusion, const ExtentValues& extents,
                                           const DeviceLimits& limits,
                                           const PlanOptions& options = {});

}  // namespace sinter
