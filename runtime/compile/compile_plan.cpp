#include "runtime/compile/compile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "runtime/compile/compile_kernel.h"
#include "runtime/compile/parallel.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"

namespace sinter {
namespace {

/// Compiles one kernel of a plan: the candidates that a Replanner names.
class KernelCompiler {
 public:
  KernelCompiler(const KernelPlan& kernel, const DeviceLimits& limits,
                 const NvrtcCompiler& compiler, KernelCache& cache,
                 const CompilePlanOptions& options)
      : kernel_(kernel),
        limits_(limits),
        compiler_(compiler),
        cache_(cache),
        options_(options),
        replanner_(kernel, limits, options.families, options.max_replans) {}

  Result<KernelBuild> run() {
    auto architecture = Architecture::parse(architecture_of(limits_));
    if (!architecture) return fail(architecture.error());
    while (const auto candidate = replanner_.next()) {
      auto compiled = compile(*candidate, *architecture);
      if (compiled) continue;
      if (builds_.empty()) return fail(compiled.error());
      break;  // A challenger that does not compile leaves the best as it is.
    }
    KernelBuild out = std::move(builds_[replanner_.best()]);
    out.attempts = replanner_.attempts();
    return out;
  }

  [[nodiscard]] Decision decision() const { return replanner_.decision(); }

 private:
  Result<void> compile(const ProposedSchedule& candidate, const Architecture& architecture) {
    auto source = emit(kernel_.facts, candidate.schedule, options_.families);
    if (!source) return fail(source.error());
    auto found = compile_kernel(compiler_, cache_, *source, architecture, options_.compiler);
    if (!found) return fail(found.error());
    replanner_.add(candidate, found->kernel->resources, source->shared_bytes);
    builds_.push_back({candidate, std::move(*source), found->kernel, found->origin, {}});
    return {};
  }

  const KernelPlan& kernel_;
  const DeviceLimits& limits_;
  const NvrtcCompiler& compiler_;
  KernelCache& cache_;
  const CompilePlanOptions& options_;
  Replanner replanner_;
  std::vector<KernelBuild> builds_;  ///< Of the replanner's attempts.
};

/// A library call as a kernel that is built already.
Result<KernelBuild> build_of_call(const KernelPlan& kernel, MatmulLibrary& library,
                                  const CompilePlanOptions& options) {
  auto source = emit(kernel.facts, kernel.chosen().schedule, options.families);
  if (!source) return fail(source.error());
  auto without_image = std::make_shared<CompiledKernel>();
  without_image->entry = source->entry;
  return KernelBuild{.chosen = kernel.chosen(),
                     .source = std::move(*source),
                     .kernel = std::move(without_image),
                     .origin = KernelOrigin::kLibrary,
                     .attempts = {},
                     .library = &library};
}

/// Compiles the kernels of a plan, several at once, each kind of them once.
class PlanCompiler {
 public:
  PlanCompiler(Plan plan, const NvrtcCompiler& compiler, KernelCache& cache,
               const CompilePlanOptions& options)
      : plan_(std::move(plan)), compiler_(compiler), cache_(cache), options_(options) {}

  Result<CompiledPlan> run() {
    // The caller may have taken another candidate, of another grid. No element is compared.
    if (const auto violations = plan_violations(plan_, 0); !violations.empty()) {
      return fail(
          {.kind = ErrorKind::kInvalidArgument,
           .message = fmt::format("the plan breaks an invariant: {}", violations.front()),
           .remedy = "take plans from plan() or load_plan(), and call plan_finish() after another "
                     "schedule is taken for a kernel",
           .log = fmt::format("{}\n", fmt::join(violations, "\n"))});
    }
    if (auto done = settle_calls(); !done) return fail(done.error());
    for (size_t i = 0; i < plan_.kernels.size(); ++i) compiled_.push_back(std::nullopt);
    // What finishes partial results waits for the grid that leaves them.
    if (auto done = compile([](const KernelPlan& kernel) { return !kernel.finishes; }); !done)
      return fail(done.error());
    if (auto done = follow_grids(); !done) return fail(done.error());
    if (auto done = compile([](const KernelPlan& kernel) { return kernel.finishes; }); !done)
      return fail(done.error());
    CompiledPlan out{.plan = std::move(plan_), .kernels = {}};
    for (const KernelId id : out.plan.kernels.ids()) {
      const auto same = out.plan.kernels[id].same_as;
      out.kernels.push_back(same ? out.kernels[*same] : std::move(*compiled_[id]));
    }
    if (kVerifyPlansByDefault) check_plan(plan_as_compiled(out));
    return out;
  }

 private:
  [[nodiscard]] bool is_call(const ProposedSchedule& candidate) const {
    return is_library_call(options_.families, candidate.schedule.family);
  }

  /// Opens the library of the calls. Where that fails, takes the best candidates that need none:
  /// what was planned beside them stays as it is.
  Result<void> settle_calls() {
    const bool has_calls = std::ranges::any_of(
        plan_.kernels, [&](const KernelPlan& kernel) { return is_call(kernel.chosen()); });
    if (!has_calls) return leave_out_calls({});
    auto opened = options_.open_library();
    if (opened) {
      library_ = *opened;
      return leave_out_calls({});
    }
    return leave_out_calls(std::move(opened.error()));
  }

  /// Removes the candidates that call a library, but for the chosen ones if the library is open:
  /// nothing else of them is compiled, so that re-planning learns nothing of them.
  Result<void> leave_out_calls(const std::optional<Error>& why) {
    for (const KernelId id : plan_.kernels.ids()) {
      const auto leave_out = [&](std::vector<ProposedSchedule>& candidates) {
        std::erase_if(candidates, [&](const ProposedSchedule& other) { return is_call(other); });
      };
      if (!is_call(plan_.kernels[id].chosen())) {
        leave_out(plan_.kernels[id].candidates);
        continue;
      }
      if (library_ != nullptr) continue;
      // A kernel like an earlier one has its schedule alone, and that one was settled before.
      const std::optional<KernelId> same = plan_.kernels[id].same_as;
      std::vector<ProposedSchedule> others = plan_.kernels[same.value_or(id)].candidates;
      leave_out(others);
      if (others.empty()) return fail(*why);
      if (same) others.resize(1);
      const Schedule taken = others.front().schedule;
      if (auto finished = plan_finish(plan_, id, taken, options_.families); !finished)
        return finished;
      KernelPlan& kernel = plan_.kernels[id];
      kernel.candidates = std::move(others);
      std::vector<Decision>& kept = plan_.is_segmented ? kernel.decisions : plan_.decisions;
      kept.push_back({.question = "does a library compute it",
                      .chosen = taken.family,
                      .because = fmt::format("{}. {}", why->message, why->remedy)});
    }
    return {};
  }

  /// Compiles the kernels that `wanted` names and that are not like an earlier one. The first
  /// error in their order counts.
  template <class Wanted>
  Result<void> compile(Wanted wanted) {
    std::vector<KernelId> work;
    for (const KernelId id : plan_.kernels.ids()) {
      const KernelPlan& kernel = plan_.kernels[id];
      if (wanted(kernel) && !kernel.same_as && !compiled_[id]) work.push_back(id);
    }
    std::vector<Decision> decisions(work.size());
    std::vector<std::optional<Error>> errors(work.size());
    std::atomic<bool> failed = false;
    const auto compile_one = [&](int64_t w, int64_t) {
      if (failed) return;  // Nothing is begun once something has failed.
      const auto at = static_cast<size_t>(w);
      const KernelPlan& planned = plan_.kernels[work[at]];
      if (is_call(planned.chosen())) {
        auto built = build_of_call(planned, *library_, options_);
        if (built) {
          compiled_[work[at]] = std::move(*built);
          decisions[at] = {.question = "which library computes it",
                           .chosen = library_->name(),
                           .because = "the plan takes the family cublaslt"};
        } else {
          errors[at] = built.error();
          failed = true;
        }
        return;
      }
      KernelCompiler kernel(planned, plan_.limits, compiler_, cache_, options_);
      auto compiled = kernel.run();
      if (compiled) {
        compiled_[work[at]] = std::move(*compiled);
        decisions[at] = kernel.decision();
      } else {
        errors[at] = compiled.error();
        failed = true;
      }
    };
    for_each_range(static_cast<int64_t>(work.size()), 1, std::max(options_.threads, 1),
                   compile_one);
    for (std::optional<Error>& error : errors) {
      if (error) return fail(std::move(*error));
    }
    for (size_t w = 0; w < work.size(); ++w) {
      std::vector<Decision>& kept =
          plan_.is_segmented ? plan_.kernels[work[w]].decisions : plan_.decisions;
      kept.push_back(std::move(decisions[w]));
    }
    return {};
  }

  /// Another grid than the planned one leaves other partial results. Kernels that finish them are
  /// added and removed; the leading ones, which alone are compiled by now, get other ids and keep
  /// their order.
  Result<void> follow_grids() {
    struct Leading {
      KernelId former;
      Schedule taken;
    };
    std::vector<Leading> leading;
    for (const KernelId id : plan_.kernels.ids()) {
      const KernelPlan& kernel = plan_.kernels[id];
      if (kernel.finishes) continue;
      leading.push_back({id, compiled_[kernel.same_as.value_or(id)]->chosen.schedule});
    }
    auto next = leading.begin();
    IdVector<KernelId, std::optional<KernelBuild>> compiled;
    for (KernelId id{0}; plan_.kernels.contains(id); id = kernel_after(id)) {
      if (plan_.kernels[id].finishes) {
        compiled.push_back(std::nullopt);
        continue;
      }
      compiled.push_back(std::move(compiled_[next->former]));
      const Schedule& taken = next++->taken;
      if (taken == plan_.kernels[id].chosen().schedule) continue;
      if (auto finished = plan_finish(plan_, id, taken, options_.families); !finished)
        return finished;
    }
    compiled_ = std::move(compiled);
    return {};
  }

  Plan plan_;
  const NvrtcCompiler& compiler_;
  KernelCache& cache_;
  const CompilePlanOptions& options_;
  MatmulLibrary* library_ = nullptr;  ///< Of the plan's calls; null without one.
  IdVector<KernelId, std::optional<KernelBuild>> compiled_;  ///< By kernel of the plan.
};

}  // namespace

Plan plan_as_compiled(const CompiledPlan& compiled) {
  Plan out = compiled.plan;
  for (const KernelId id : out.kernels.ids())
    out.kernels[id].candidates = {compiled.kernels[id].chosen};
  return out;
}

Result<CompiledPlan> compile_plan(Plan plan, const NvrtcCompiler& compiler, KernelCache& cache,
                                  const CompilePlanOptions& options) {
  return as_result([&]() -> Result<CompiledPlan> {
    return PlanCompiler(std::move(plan), compiler, cache, options).run();
  });
}

}  // namespace sinter
