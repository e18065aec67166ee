#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/compile/compile_plan.h"
#include "tests/support/canned_fusions.h"

namespace sinter {

/// One schedule, what the scheduler predicted for it, and what the compiler made of it.
struct BudgetSample {
  std::string fusion;
  std::string device;
  bool chosen = false;  ///< The planner's choice; else a random legal schedule.
  Schedule schedule;
  ResourceEstimate predicted;
  KernelSource source;
  CompiledKernelPtr kernel;

  /// Registers expected under the schedule's launch bounds, which cap what the model says.
  [[nodiscard]] int64_t predicted_registers() const;
  /// |predicted - compiled| / compiled.
  [[nodiscard]] double register_error() const;
  /// Shared bytes of a block: as ptxas reports them if static, in whole units of 16, and as the
  /// launch asks for them if not.
  [[nodiscard]] int64_t shared_bytes() const;
  [[nodiscard]] bool shared_is_exact() const { return shared_bytes() == predicted.shared_bytes; }
};

/// Which schedules to compile: of every fusion at its large size and on every device, the chosen
/// schedule and `random_schedules` random ones. Fusions that no family takes give none.
struct BudgetPopulation {
  std::vector<CannedFusion> fusions;
  std::vector<std::string> devices;
  int random_schedules = 5;
  bool chosen = true;
  int threads = 2;  ///< That compile at once.
};

/// Plans, draws and compiles. The order depends on the population alone. Errors: those of plan(),
/// but for Unsupported, and of compiling.
Result<std::vector<BudgetSample>> measure_budgets(const BudgetPopulation& population,
                                                  const NvrtcCompiler& compiler,
                                                  KernelCache& cache);

/// The value below which `share` of the values lie, by linear interpolation; 0 for none.
double quantile(std::vector<double> values, double share);

}  // namespace sinter
