#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/budgets/resources.h"
#include "scheduler/plan/plan.h"

namespace sinter {

/// One candidate that was compiled, and how it compares with its estimate.
struct CompileAttempt {
  ProposedSchedule proposed;    ///< As planned.
  CompiledResources resources;  ///< As compiled.
  Prediction predicted;         ///< With the compiled resources.
  std::string verdict;
};

/// Decides which candidates of a kernel are compiled, and which of the compiled ones is taken.
///
/// The chosen candidate is the first. Where it spills, or takes so many registers that another one
/// is now predicted faster, up to `max_replans` more follow. Where it spills, the same schedule
/// with fewer promised blocks per SM is a candidate too. Nothing is timed, so the decision depends
/// on the plan and on the compiler alone. A schedule that was pinned whole stands alone.
///
/// `kernel`, `limits` and `families` outlive it.
class Replanner {
 public:
  Replanner(const KernelPlan& kernel, const DeviceLimits& limits, const FamilySet& families,
            int max_replans)
      : kernel_(kernel), limits_(limits), families_(families), max_replans_(max_replans) {}

  /// The candidate to compile next; none: the best of those compiled is taken. Every answer is
  /// followed by add(), or is the last one asked for.
  std::optional<ProposedSchedule> next();
  /// What the compiler made of it. `shared_bytes` are those of the emitted kernel.
  void add(const ProposedSchedule& proposed, const CompiledResources& resources,
           int64_t shared_bytes);

  [[nodiscard]] const std::vector<CompileAttempt>& attempts() const { return attempts_; }
  /// The place of the best among the attempts.
  [[nodiscard]] size_t best() const { return best_; }
  /// All attempts and why the best is taken.
  [[nodiscard]] Decision decision() const;

 private:
  [[nodiscard]] bool was_attempted(const Schedule& schedule) const;
  [[nodiscard]] bool would_spill_too(const ProposedSchedule& candidate) const;
  [[nodiscard]] std::optional<ProposedSchedule> relaxed(const CompileAttempt& best) const;

  const KernelPlan& kernel_;
  const DeviceLimits& limits_;
  const FamilySet& families_;
  const int max_replans_;
  std::vector<CompileAttempt> attempts_;
  size_t best_ = 0;
  size_t next_ = 0;  ///< Of the kernel's candidates.
};

}  // namespace sinter
