#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/kernel_source.h"
#include "runtime/cache/compiled_kernel.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/replan.h"

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

struct KernelBuild {
  ProposedSchedule chosen;
  KernelSource source;
  CompiledKernelPtr kernel;
  KernelOrigin origin = KernelOrigin::kCompiled;
  std::vector<CompileAttempt> attempts;  ///< At least one; the chosen one is among them.
};

struct CompiledPlan {
  Plan plan;  ///< With the decisions of re-planning appended.
  IdVector<KernelId, KernelBuild> kernels;
};

/// The plan with the schedules that were compiled as its chosen ones, and no others.
Plan plan_as_compiled(const CompiledPlan& compiled);

/// Compiles a plan's kernels for its device, without a GPU: of each kernel the candidates that a
/// Replanner names, of which the best compiled one is taken. A Decision keeps all attempts.
/// Nothing is timed, so the result depends on the arguments and the compiler's version alone.
///
/// Errors: InvalidArgument for a plan that breaks an invariant (plan_violations()), such as one in
/// which another schedule was taken without plan_finish(); those of lowering and of compile_kernel;
/// Cancelled and ResourceExhausted where families are interrupted
/// (codegen/lower/interruptible_lowering.h). What a family's functions throw on any thread is
/// thrown on, but for a SinterException, whose error is given.
Result<CompiledPlan> compile_plan(Plan plan, const NvrtcCompiler& compiler, KernelCache& cache,
                                  const CompilePlanOptions& options = {});

}  // namespace sinter
