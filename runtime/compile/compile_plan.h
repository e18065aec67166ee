#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/kernel_source.h"
#include "runtime/cache/compiled_kernel.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "scheduler/plan/plan.h"

namespace sinter {

struct CompilePlanOptions {
  FamilySet families = builtin_families();
  /// Candidates compiled after the first when the compiler's truth changes the predicted order; 0
  /// forbids re-planning.
  int max_replans = 3;
  /// Segments compiled at once. Each takes a core, and NVRTC some 100 MB.
  int threads = 1;
  CompileOptions compiler{};
};

/// One candidate that was compiled, and how it compares with its estimate.
struct CompileAttempt {
  ProposedSchedule proposed;    ///< As planned.
  CompiledResources resources;  ///< As compiled.
  Prediction predicted;         ///< With the compiled resources.
  std::string verdict;
};

struct KernelBuild {
  ProposedSchedule chosen;
  KernelSource source;
  CompiledKernelPtr kernel;
  KernelOrigin origin = KernelOrigin::kCompiled;
  std::vector<CompileAttempt> attempts;  ///< At least one; the chosen one is among them.
};

struct CompiledPlan {
  Plan plan;  ///< With the decisions of re-planning appended.
  std::vector<KernelBuild> kernels;
};

/// The plan with the schedules that were compiled as its chosen ones, and no others.
Plan plan_as_compiled(const CompiledPlan& compiled);

/// Compiles a plan's kernels for its device, without a GPU. Where the compiler spills, or takes so
/// many registers that another candidate is now predicted faster, up to `max_replans` further
/// candidates are compiled and the best compiled one is taken; a Decision keeps all attempts. Where
/// it spills, the same schedule with fewer promised blocks is a candidate too. Of
/// rings only spills count: what ptxas takes beyond their needs it takes because there is room. A
/// schedule that was pinned whole is compiled as it is.
/// Nothing is timed, so the result depends on the arguments and the compiler's version alone.
///
/// Errors: those of lowering and of compile_kernel; Cancelled and ResourceExhausted where families
/// are interrupted (codegen/lower/interruptible_lowering.h). What a family's functions throw on any
/// thread is thrown on, but for a SinterException, whose error is given.
Result<CompiledPlan> compile_plan(Plan plan, const NvrtcCompiler& compiler, KernelCache& cache,
                                  const CompilePlanOptions& options = {});

}  // namespace sinter
