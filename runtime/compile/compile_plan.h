#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/kernel_source.h"
#include "runtime/cache/compiled_kernel.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "runtime/cublaslt/cublaslt.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/plan/plan.h"
#include "scheduler/planning/replan.h"

namespace sinter {

struct CompilePlanOptions {
  FamilySet families = with_cublaslt(builtin_families());
  /// Candidates compiled after the first when the compiler's truth changes the predicted order; 0
  /// forbids re-planning.
  int max_replans = 3;
  /// Segments compiled at once. Each takes a core, and NVRTC some 100 MB.
  int threads = 1;
  CompileOptions compiler{};
  /// Opens the library of plans with the family cublaslt; asked once for each such plan. If that
  /// fails, other candidates are compiled, and a Decision says so.
  std::function<Result<MatmulLibrary*>()> open_library = cublaslt;
};

struct KernelBuild {
  ProposedSchedule chosen;
  KernelSource source;
  CompiledKernelPtr kernel;  ///< Of a library call: one without an image.
  KernelOrigin origin = KernelOrigin::kCompiled;
  /// At least one, of which one is the chosen one; none of a library call.
  std::vector<CompileAttempt> attempts;
  MatmulLibrary* library = nullptr;  ///< What runs `source.call`; null without one.
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
/// A library call needs no compilation. If its library cannot be opened, the best candidate that
/// needs none takes its place.
///
/// Errors: Unsupported if a library cannot be opened and there is no other candidate;
/// InvalidArgument for a plan that breaks an invariant (plan_violations()), such as one in
/// which another schedule was taken without plan_finish(); those of lowering and of compile_kernel;
/// Cancelled and ResourceExhausted where families are interrupted
/// (codegen/lower/interruptible_lowering.h). What a family's functions throw on any thread is
/// thrown on, but for a SinterException, whose error is given.
Result<CompiledPlan> compile_plan(Plan plan, const NvrtcCompiler& compiler, KernelCache& cache,
                                  const CompilePlanOptions& options = {});

}  // namespace sinter
