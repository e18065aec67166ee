#include "scheduler/planning/replan.h"

#include <fmt/format.h>

#include <algorithm>

#include "fusion_ir/error.h"
#include "fusion_ir/integers.h"
#include "scheduler/analysis/cuda_units.h"
#include "scheduler/schedule/two_pass.h"
#include "scheduler/segmentation/offers.h"

namespace sinter {
namespace {

/// A kernel that spills loses to one that does not and is predicted to take up to this fraction
/// longer. Source: the mean error of the predictions (docs/performance.md, "The cost model").
constexpr double kSpillTieShare = 0.05;

bool spills(const CompileAttempt& attempt) { return attempt.resources.spill_store_bytes > 0; }

int64_t spilled_registers(const CompiledResources& resources) {
  return divided_up(resources.spill_store_bytes, kRegisterBytes);
}

/// Lower bound of the registers with which nothing would spill.
int64_t wanted_registers(const CompiledResources& resources) {
  return resources.registers + spilled_registers(resources);
}

/// The estimate with the compiler's numbers in place of the predicted ones. Where a family counts
/// rows that a block takes one after the other as waves, these do not change.
ResourceEstimate with_compiled(const ResourceEstimate& estimate, const CompiledResources& resources,
                               const Schedule& schedule, const DeviceLimits& limits) {
  ResourceEstimate planned = estimate;
  complete(planned, limits, schedule.min_blocks_per_sm, schedule.launched_cluster());
  ResourceEstimate out = estimate;
  out.registers = resources.registers;
  complete(out, limits, schedule.min_blocks_per_sm, schedule.launched_cluster());
  if (planned.waves > 0.0) out.waves *= estimate.waves / planned.waves;
  out.register_cap = estimate.register_cap;
  out.spilled_registers = spilled_registers(resources);
  return out;
}

/// True if a is predicted faster; of two that count as equal, the one that does not spill is
/// better.
bool is_better(const CompileAttempt& a, const CompileAttempt& b) {
  const double a_us = a.predicted.total_us;
  const double b_us = b.predicted.total_us;
  const bool equal = std::max(a_us, b_us) <= std::min(a_us, b_us) * (1.0 + kSpillTieShare);
  if (spills(a) != spills(b) && equal) return spills(b);
  return a_us < b_us;
}

/// True if a candidate may turn out better once compiled: faster by more than the tie-break
/// threshold, or about as fast as one that spills.
bool could_replace(const ProposedSchedule& candidate, const CompileAttempt& best) {
  const double share = spills(best) ? 1.0 + kSpillTieShare : 1.0 - kTieShare;
  return candidate.predicted.total_us < best.predicted.total_us * share;
}

std::string text_of_attempt(const Schedule& schedule) {
  return fmt::format("{} threads/row x {} rows/block, {} blocks/SM promised",
                     schedule.threads_per_row, schedule.rows_per_block, schedule.min_blocks_per_sm);
}

}  // namespace

bool Replanner::was_attempted(const Schedule& schedule) const {
  return std::ranges::any_of(attempts_, [&](const CompileAttempt& attempt) {
    return attempt.proposed.schedule == schedule;
  });
}

/// Predicts spills from earlier attempts. A candidate estimated above its register cap spills if
/// another such candidate did. Any other candidate spills if a similar attempt exceeded its
/// estimate by more registers than this one has to spare. Loops that keep no values are similar if
/// they have equally many vectors in flight.
bool Replanner::would_spill_too(const ProposedSchedule& candidate) const {
  // Warps of a pipelined kernel redistribute registers (setmaxnreg), so no single cap holds for its
  // threads.
  if (candidate.schedule.pipeline_stages() > 0) return false;
  return std::ranges::any_of(attempts_, [&](const CompileAttempt& attempt) {
    if (!spills(attempt)) return false;
    const ProposedSchedule& tried = attempt.proposed;
    if (is_register_limited(candidate.estimate)) return is_register_limited(tried.estimate);
    if (tried.schedule.family != candidate.schedule.family ||
        tried.schedule.kept != candidate.schedule.kept ||
        (tried.schedule.kept.empty() && tried.schedule.unroll != candidate.schedule.unroll)) {
      return false;
    }
    const int64_t beyond = wanted_registers(attempt.resources) - tried.estimate.registers;
    return candidate.estimate.registers + beyond > candidate.estimate.register_cap;
  });
}

/// The same schedule with fewer minimum blocks per SM, so that the compiler gets the registers it
/// lacked.
std::optional<ProposedSchedule> Replanner::relaxed(const CompileAttempt& best) const {
  if (!spills(best) || best.proposed.schedule.min_blocks_per_sm <= 1) return std::nullopt;
  ProposedSchedule out = best.proposed;
  const int64_t wanted = wanted_registers(best.resources);
  int64_t& blocks = out.schedule.min_blocks_per_sm;
  while (blocks > 1 && register_cap(limits_, out.estimate.threads, blocks) < wanted) --blocks;
  if (blocks == best.proposed.schedule.min_blocks_per_sm) --blocks;
  int64_t& grid = out.schedule.persistent_blocks;
  if (!is_non_persistent(kernel_.facts, out.schedule))
    grid = std::min(grid, blocks * limits_.sm_count);
  const Family* family = find_family(families_, out.schedule.family);
  const auto estimate = family->estimate(kernel_.facts, out.schedule, limits_);
  if (!estimate || was_attempted(out.schedule)) return std::nullopt;
  out.estimate = *estimate;
  out.predicted = family->predict(kernel_.facts, out.schedule, *estimate, limits_);
  return out;
}

std::optional<ProposedSchedule> Replanner::next() {
  const std::vector<ProposedSchedule>& candidates = kernel_.candidates;
  if (attempts_.empty()) {
    next_ = 1;
    return candidates.front();
  }
  const size_t replans = kernel_.is_required ? 0 : static_cast<size_t>(std::max(max_replans_, 0));
  if (attempts_.size() > replans) return std::nullopt;
  const CompileAttempt& best = attempts_[best_];
  std::optional<ProposedSchedule> out = relaxed(best);
  while (next_ < candidates.size() && would_spill_too(candidates[next_])) ++next_;
  if (next_ == candidates.size() || !could_replace(candidates[next_], best)) return out;
  // Take the one that is predicted to be faster.
  if (out && out->predicted.total_us <= candidates[next_].predicted.total_us) return out;
  return candidates[next_++];
}

void Replanner::add(const ProposedSchedule& proposed, const CompiledResources& resources,
                    int64_t shared_bytes) {
  const ResourceEstimate compiled =
      with_compiled(proposed.estimate, resources, proposed.schedule, limits_);
  const Family* family = find_family(families_, proposed.schedule.family);
  SINTER_CHECK(family != nullptr, "a compiled schedule of no family of the set");
  attempts_.push_back(
      {.proposed = proposed,
       .resources = resources,
       .predicted = family->predict(kernel_.facts, proposed.schedule, compiled, limits_),
       .verdict = fmt::format(
           "{} registers (predicted {}), {} shared bytes (predicted {}), {} bytes spilled",
           resources.registers, proposed.estimate.registers, shared_bytes,
           proposed.estimate.shared_bytes, resources.spill_store_bytes)});
  if (is_better(attempts_.back(), attempts_[best_])) best_ = attempts_.size() - 1;
}

Decision Replanner::decision() const {
  Decision out{.question = "does the compiled kernel keep to its estimate"};
  for (const CompileAttempt& attempt : attempts_) {
    out.candidates.push_back({.what = text_of_attempt(attempt.proposed.schedule),
                              .predicted = attempt.predicted,
                              .legal = true,
                              .because = attempt.verdict});
  }
  if (attempts_.empty()) return out;
  out.chosen = out.candidates[best_].what;
  out.because = attempts_.size() == 1
                    ? "the estimate holds well enough to keep the order of candidates"
                    : fmt::format("best of {} compiled candidates", attempts_.size());
  return out;
}

}  // namespace sinter
