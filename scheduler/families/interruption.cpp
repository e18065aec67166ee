#include "scheduler/families/interruption.h"

#include <fmt/format.h>

#include <memory>

#include "scheduler/analysis/segment_facts.h"

namespace sinter {

Result<std::optional<std::chrono::steady_clock::time_point>> deadline_in(double budget_seconds) {
  using Clock = std::chrono::steady_clock;
  // Beyond this a clock's time would overflow.
  constexpr double kMostSeconds = 1e9;
  if (!(budget_seconds >= 0.0 && budget_seconds <= kMostSeconds)) {
    return fail(
        {.kind = ErrorKind::kInvalidArgument,
         .message = fmt::format("a time budget of {} s", budget_seconds),
         .remedy = fmt::format("give seconds up to {:g}, or 0 for no limit", kMostSeconds)});
  }
  if (budget_seconds == 0.0) return std::nullopt;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget_seconds));
}

void InterruptionPoint::check(Progress::Stage stage, std::string_view family,
                              std::string_view segment) {
  const std::lock_guard lock(mutex_);
  size_t& steps = steps_[static_cast<size_t>(stage)];
  if (interruption_.progress &&
      !interruption_.progress(
          {.stage = stage, .family = family, .segment = segment, .steps = steps})) {
    throw_error(
        {.kind = ErrorKind::kCancelled,
         .message = fmt::format("the caller cancelled before '{}' of '{}'", family, segment),
         .remedy = "call again to begin anew"});
  }
  if (interruption_.deadline && std::chrono::steady_clock::now() >= *interruption_.deadline) {
    throw DeadlinePassed(
        {.kind = ErrorKind::kResourceExhausted,
         .message = fmt::format(
             "the time budget ended after {} {}, before '{}' of '{}'", steps,
             stage == Progress::Stage::kPlan ? "question(s) to families" : "lowered kernel(s)",
             family, segment),
         .remedy = "give more time, or pin a schedule or how the graph is cut"});
  }
  ++steps;
}

FamilySet interruptible(FamilySet families, Interruption interruption) {
  const auto point = std::make_shared<InterruptionPoint>(std::move(interruption));
  for (Family& family : families) {
    family.propose = [point, name = family.name, propose = std::move(family.propose)](
                         const SegmentFacts& facts, const DeviceLimits& limits) {
      point->check(Progress::Stage::kPlan, name, facts.fusion.name);
      return propose(facts, limits);
    };
  }
  return families;
}

}  // namespace sinter
