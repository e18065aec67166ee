#include "runtime/compile/compile_plan.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "runtime/compile/compile_kernel.h"
#include "runtime/compile/parallel.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/two_pass.h"
#include "scheduler/segmentation/offers.h"

namespace sinter {
namespace {

/// A kernel that spills loses to one that does not and is predicted to take up to this share
/// longer: about what predictions are off by in the mean (docs/performance.md, "The cost model").
constexpr double kSpillTieShare = 0.05;

/// The estimate with the compiler's figures in place of the predicted ones. What else a family
/// counts as waves, the rows that a block takes one after the other, stays as it is.
ResourceEstimate with_compiled(const ResourceEstimate& estimate, const CompiledResources& resources,
                               const Schedule& schedule, const DeviceLimits& limits) {
  ResourceEstimate planned = estimate;
  complete(planned, limits, schedule.min_blocks_per_sm, schedule.cluster_size);
  ResourceEstimate out = estimate;
  out.registers = resources.registers;
  complete(out, limits, schedule.min_blocks_per_sm, schedule.cluster_size);
  if (planned.waves > 0.0) out.waves *= estimate.waves / planned.waves;
  out.register_cap = estimate.register_cap;
  out.spilled_registers = (resources.spill_store_bytes + kRegisterBytes - 1) / kRegisterBytes;
  return out;
}

class SegmentCompiler {
 public:
  SegmentCompiler(const KernelPlan& kernel, const DeviceLimits& limits,
                  const NvrtcCompiler& compiler, KernelCache& cache,
                  const CompilePlanOptions& options)
      : segment_(kernel), limits_(limits), compiler_(compiler), cache_(cache), options_(options) {}

  Result<KernelBuild> run() {
    auto architecture = Architecture::parse(architecture_of(limits_));
    if (!architecture) return fail(architecture.error());
    architecture_ = *architecture;

    if (auto compiled = attempt(segment_.candidates.front()); !compiled)
      return fail(compiled.error());
    size_t next = 1;
    const int replans = segment_.is_required ? 0 : options_.max_replans;
    for (int replan = 0; replan < replans; ++replan) {
      const CompileAttempt& best = attempts_[best_];
      const ProposedSchedule* challenger = nullptr;
      std::optional<ProposedSchedule> relaxed;
      if (best.resources.spill_store_bytes > 0 && best.proposed.schedule.min_blocks_per_sm > 1) {
        relaxed = relax(best);
        // It lost already.
        if (relaxed && was_attempted(relaxed->schedule)) relaxed.reset();
      }
      while (next < segment_.candidates.size() && would_spill_too(segment_.candidates[next]))
        ++next;
      if (next < segment_.candidates.size() && could_replace(segment_.candidates[next], best))
        challenger = &segment_.candidates[next];
      // Whichever is expected to be faster.
      if (relaxed && (challenger == nullptr ||
                      relaxed->predicted.total_us <= challenger->predicted.total_us)) {
        challenger = &*relaxed;
      } else if (challenger != nullptr) {
        ++next;
      }
      if (challenger == nullptr) break;
      const ProposedSchedule copy = *challenger;
      // A challenger that does not compile leaves the best as it is.
      if (auto compiled = attempt(copy); !compiled) break;
    }
    KernelBuild out = std::move(compiled_[best_]);
    out.attempts = std::move(attempts_);
    return out;
  }

  [[nodiscard]] Decision decision() const { return decision_; }

 private:
  [[nodiscard]] bool was_attempted(const Schedule& schedule) const {
    return std::ranges::any_of(attempts_, [&](const CompileAttempt& attempt) {
      return attempt.proposed.schedule == schedule;
    });
  }

  /// Faster by prediction; of two that count as equal, the one that does not spill.
  static bool is_better(const CompileAttempt& a, const CompileAttempt& b) {
    const bool spills_a = a.resources.spill_store_bytes > 0;
    const bool spills_b = b.resources.spill_store_bytes > 0;
    const double a_us = a.predicted.total_us;
    const double b_us = b.predicted.total_us;
    const bool equal = std::max(a_us, b_us) <= std::min(a_us, b_us) * (1.0 + kSpillTieShare);
    if (spills_a != spills_b && equal) return spills_b;
    return a_us < b_us;
  }

  /// True if a candidate may turn out better once compiled: faster by more than counts as equal, or
  /// as fast as one that spills.
  static bool could_replace(const ProposedSchedule& candidate, const CompileAttempt& best) {
    const bool spills = best.resources.spill_store_bytes > 0;
    return candidate.predicted.total_us <
           best.predicted.total_us * (spills ? 1.0 + kSpillTieShare : 1.0 - kTieShare);
  }

  /// True if a candidate would spill as one did that was compiled. One that counts on the compiler
  /// to do with fewer registers than estimated, if another did. One that has room, if the other is
  /// of the same kind and there is none for what that needed beyond its estimate; loops that keep
  /// nothing are of the same kind with as many vectors under way.
  [[nodiscard]] bool would_spill_too(const ProposedSchedule& candidate) const {
    // Warps of a ring share registers out, so no one cap holds for its threads.
    if (candidate.schedule.pipeline_stages > 0) return false;
    return std::ranges::any_of(attempts_, [&](const CompileAttempt& attempt) {
      if (attempt.resources.spill_store_bytes == 0) return false;
      const ProposedSchedule& tried = attempt.proposed;
      if (is_register_limited(candidate.estimate)) return is_register_limited(tried.estimate);
      if (tried.schedule.family != candidate.schedule.family ||
          tried.schedule.kept != candidate.schedule.kept ||
          (tried.schedule.kept.empty() && tried.schedule.unroll != candidate.schedule.unroll))
        return false;
      const int64_t beyond = wanted_registers(attempt.resources) - tried.estimate.registers;
      return candidate.estimate.registers + beyond > candidate.estimate.register_cap;
    });
  }

  /// Registers with which nothing would be spilled, at the least.
  static int64_t wanted_registers(const CompiledResources& resources) {
    return resources.registers +
           (resources.spill_store_bytes + kRegisterBytes - 1) / kRegisterBytes;
  }

  /// The same schedule with fewer promised blocks, so that the compiler gets the registers it
  /// lacked.
  std::optional<ProposedSchedule> relax(const CompileAttempt& best) const {
    ProposedSchedule relaxed = best.proposed;
    const int64_t wanted = wanted_registers(best.resources);
    int64_t& blocks = relaxed.schedule.min_blocks_per_sm;
    while (blocks > 1 && register_cap(limits_, relaxed.estimate.threads, blocks) < wanted) --blocks;
    if (blocks == best.proposed.schedule.min_blocks_per_sm) --blocks;
    int64_t& grid = relaxed.schedule.persistent_blocks;
    if (!is_non_persistent(segment_.facts, relaxed.schedule))
      grid = std::min(grid, blocks * limits_.sm_count);
    const Family* family = find_family(options_.families, relaxed.schedule.family);
    auto estimate = family->estimate(segment_.facts, relaxed.schedule, limits_);
    if (!estimate) return std::nullopt;
    relaxed.estimate = *estimate;
    relaxed.predicted = family->predict(segment_.facts, relaxed.schedule, *estimate, limits_);
    return relaxed;
  }

  Result<void> attempt(const ProposedSchedule& proposed) {
    auto source = emit(segment_.facts, proposed.schedule, options_.families);
    if (!source) return fail(source.error());
    auto found = compile_kernel(compiler_, cache_, *source, architecture_, options_.compiler);
    if (!found) return fail(found.error());
    const CompiledResources& resources = found->kernel->resources;
    const ResourceEstimate truth =
        with_compiled(proposed.estimate, resources, proposed.schedule, limits_);
    const Family* family = find_family(options_.families, proposed.schedule.family);
    const Prediction predicted = family->predict(segment_.facts, proposed.schedule, truth, limits_);
    std::string verdict =
        fmt::format("{} registers (predicted {}), {} shared bytes (predicted {}), {} bytes spilled",
                    resources.registers, proposed.estimate.registers, source->shared_bytes,
                    proposed.estimate.shared_bytes, resources.spill_store_bytes);
    attempts_.push_back({proposed, resources, predicted, std::move(verdict)});
    compiled_.push_back({proposed, std::move(*source), found->kernel, found->origin, {}});
    if (is_better(attempts_.back(), attempts_[best_])) best_ = attempts_.size() - 1;
    decision_.candidates.push_back(
        {.what = fmt::format("{} threads/row x {} rows/block, {} blocks/SM promised",
                             proposed.schedule.threads_per_row, proposed.schedule.rows_per_block,
                             proposed.schedule.min_blocks_per_sm),
         .predicted = predicted,
         .legal = true,
         .because = attempts_.back().verdict});
    decision_.question = "does the compiled kernel keep to its estimate";
    decision_.chosen = decision_.candidates[best_].what;
    decision_.because = attempts_.size() == 1
                            ? "the estimate holds well enough to keep the order of candidates"
                            : fmt::format("best of {} compiled candidates", attempts_.size());
    return {};
  }

  const KernelPlan& segment_;
  const DeviceLimits& limits_;
  const NvrtcCompiler& compiler_;
  KernelCache& cache_;
  const CompilePlanOptions& options_;
  Architecture architecture_;
  std::vector<CompileAttempt> attempts_;
  std::vector<KernelBuild> compiled_;
  size_t best_ = 0;
  Decision decision_;
};

}  // namespace

namespace {

/// Compiles the segments of a plan, several at once, each kind of them once.
class PlanCompiler {
 public:
  PlanCompiler(Plan plan, const NvrtcCompiler& compiler, KernelCache& cache,
               const CompilePlanOptions& options)
      : plan_(std::move(plan)), compiler_(compiler), cache_(cache), options_(options) {}

  Result<CompiledPlan> run() {
    compiled_.resize(plan_.kernels.size());
    // What finishes partial results waits for the grid that leaves them.
    if (auto done = compile([](const KernelPlan& kernel) { return !kernel.finishes; }); !done)
      return fail(done.error());
    if (auto done = follow_grids(); !done) return fail(done.error());
    if (auto done = compile([](const KernelPlan& kernel) { return kernel.finishes; }); !done)
      return fail(done.error());
    CompiledPlan out{.plan = std::move(plan_), .kernels = {}};
    for (size_t i = 0; i < compiled_.size(); ++i) {
      const auto same = out.plan.kernels[i].same_as;
      out.kernels.push_back(same ? out.kernels[*same] : std::move(*compiled_[i]));
    }
    if (kVerifyPlansByDefault) check_plan(plan_as_compiled(out));
    return out;
  }

 private:
  /// Compiles the segments that `wanted` names and that are not like an earlier one. The first
  /// error in their order counts.
  template <class Wanted>
  Result<void> compile(Wanted wanted) {
    std::vector<size_t> work;
    for (size_t i = 0; i < plan_.kernels.size(); ++i) {
      const KernelPlan& kernel = plan_.kernels[i];
      if (wanted(kernel) && !kernel.same_as && !compiled_[i]) work.push_back(i);
    }
    std::vector<Decision> decisions(work.size());
    std::vector<std::optional<Error>> errors(work.size());
    std::atomic<bool> failed = false;
    const auto compile_one = [&](int64_t w, int64_t) {
      if (failed) return;  // Nothing is begun once something has failed.
      const auto at = static_cast<size_t>(w);
      SegmentCompiler kernel(plan_.kernels[work[at]], plan_.limits, compiler_, cache_, options_);
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

  /// Another grid than the planned one leaves other partial results.
  Result<void> follow_grids() {
    for (size_t i = 0; i < plan_.kernels.size(); ++i) {
      const KernelPlan& kernel = plan_.kernels[i];
      if (kernel.finishes) continue;
      const Schedule& schedule = compiled_[kernel.same_as.value_or(i)]->chosen.schedule;
      if (schedule == kernel.chosen().schedule) continue;
      const size_t before = plan_.kernels.size();
      if (auto finished = plan_finish(plan_, i, schedule, options_.families); !finished)
        return finished;
      const auto behind = compiled_.begin() + static_cast<ptrdiff_t>(i + 1);
      if (plan_.kernels.size() > before) compiled_.emplace(behind);
      if (plan_.kernels.size() < before) compiled_.erase(behind);
    }
    return {};
  }

  Plan plan_;
  const NvrtcCompiler& compiler_;
  KernelCache& cache_;
  const CompilePlanOptions& options_;
  std::vector<std::optional<KernelBuild>> compiled_;  ///< By segment.
};

}  // namespace

Plan plan_as_compiled(const CompiledPlan& compiled) {
  Plan out = compiled.plan;
  for (size_t i = 0; i < out.kernels.size(); ++i)
    out.kernels[i].candidates = {compiled.kernels[i].chosen};
  return out;
}

Result<CompiledPlan> compile_plan(Plan plan, const NvrtcCompiler& compiler, KernelCache& cache,
                                  const CompilePlanOptions& options) {
  return as_result([&]() -> Result<CompiledPlan> {
    return PlanCompiler(std::move(plan), compiler, cache, options).run();
  });
}

}  // namespace sinter
