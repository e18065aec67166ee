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
/// The chosen candidate is compiled first. If it spills, or takes so many registers that another
/// one is now predicted faster, up to `max_replans` more follow. If it spills, the same schedule
/// with fewer minimum blocks per SM is also a candidate. Nothing is timed, so the decision depends
/// on the plan and on the compiler alone. If a whole schedule was pinned, it is the only candidate.
///
/// `kernel`, `limits` and `families` outlive it.
class Replanner {
 public:
  Replanner(const KernelPlan& kernel, const DeviceLimits& limits, const FamilySet& families,
            int max_replans)
      : kernel_(kernel), limits_(limits), families_(families), max_replans_(max_replans) {}

  /// The candidate to compile next. No value: the best of those compiled is taken. Call add() after
  /// each candidate, before the next call.
  std::optional<ProposedSchedule> next();
  /// Records the compiler's result. `shared_bytes` are those of the emitted kernel.
  void add(const ProposedSchedule& proposed, const CompiledResources& resources,
           int64_t shared_bytes);

  [[nodiscard]] const std::vector<CompileAttempt>& attempts() const { return attempts_; }
  /// Index of the best attempt.
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
  size_t next_ = 0;  ///< Index of the kernel's next candidate.
};

}  // namespace sinter
