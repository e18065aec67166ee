#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tuning/tuning_key.h"
#include "scheduler/plan/plan.h"
#include "scheduler/plan/plan_options.h"

namespace sinter::tool {

/// Which of a canned fusion's sizes stands in for extents that are not given.
enum class DefaultSize { kLarge, kSmall };

/// What the user said to plan, as text from the command line.
struct ProblemOptions {
  std::string source{};  ///< A .fir file, "-" for standard input, or the name of a canned fusion.
  std::vector<std::string> extents{};  ///< "rows=8192".
  std::string device = "H200";         ///< A preset's name, "live", or a file of limits.
  std::string schedule_file{};
  std::string tuned_file{};  ///< A tuning database; empty: nothing measured is used.
  std::string plan_file{};   ///< A saved plan, in place of a fusion and all that plans it.
  std::string family{};
  std::string residency{};
  std::vector<std::string> cuts{};   ///< Values that go through memory.
  std::vector<std::string> joins{};  ///< "q,k,v": made by one kernel.
  std::vector<std::string> like{};   ///< Sizes whose plan is followed: "rows=8192"; none: chosen.
  bool check_indices = false;
  bool cublaslt = false;        ///< Offer its matrix products.
  bool defer_scales = false;    ///< Scales of rows may move behind contractions.
  bool no_teams = false;        ///< No kernels whose blocks wait for each other by messages.
  double budget_seconds = 0.0;  ///< For planning and compiling, from now; 0: no limit.
  bool shows_progress = false;  ///< A line on standard error before every step of them.
  std::optional<int64_t> threads_per_row{}, rows_per_block{}, vector_width{}, unroll{};
};

/// The same, read and checked.
struct Problem {
  Fusion fusion;
  ExtentValues extents;
  DeviceLimits limits;
  PlanOptions plan_options;  ///< Its families plan and lower until the time is spent.
};

/// Reads files and looks names up. Errors: InvalidArgument, InvalidFusion, DeviceError.
Result<Problem> load_problem(const ProblemOptions& options,
                             DefaultSize default_size = DefaultSize::kLarge);

/// A device by its preset's name, "live" for the first one of this machine, or a file of limits
/// (runtime/json/device_limits_json.h). Errors: InvalidArgument, ResourceExhausted, DeviceError.
Result<DeviceLimits> find_limits(const std::string& name);

/// What tuning keeps the problem under, with the NVRTC of this machine. Errors: DeviceError.
Result<TuningKey> key_of(const Problem& problem);

/// The problem's plan, with families that can lower.
Result<Plan> plan_problem(const Problem& problem);

/// A plan with the families that lower it.
struct PlannedProblem {
  Plan plan;
  FamilySet families;
};
/// The problem's plan, or the one that was saved. Errors: those of load_problem(), plan() and
/// load_plan(); InvalidArgument where both or none are given.
Result<PlannedProblem> load_planned(const ProblemOptions& options);

/// Writes a file anew. InvalidArgument if that fails.
Result<void> write_file(const std::string& path, std::string_view text);
/// All of a file, or of standard input, "-", which can be read once. InvalidArgument if it cannot
/// be read, ResourceExhausted if it does not end.
Result<std::string> read_file(const std::string& path);
/// A file as messages name it.
std::string_view shown(std::string_view path);

}  // namespace sinter::tool
