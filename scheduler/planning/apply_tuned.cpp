#include "scheduler/planning/apply_tuned.h"

#include <algorithm>

#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/segmentation/offers.h"

namespace sinter {
namespace {

std::string source_text(const TunedChoices& tuned) {
  return tuned.source.empty() ? "the caller's measurements" : tuned.source;
}

/// The schedule in one line, or a note that it does not parse.
std::string what_of(const TunedSchedule& tuned) {
  const auto schedule = parse_schedule(tuned.schedule);
  return schedule ? summary_of(*schedule) : "a schedule that this Sinter cannot read";
}

/// The tuned schedule as a candidate for the segment, or the reason why it cannot be one.
Result<ProposedSchedule> candidate_of(const KernelPlan& kernel, const TunedSchedule& tuned,
                                      const DeviceLimits& limits, const PlanOptions& options) {
  auto schedule = parse_schedule(tuned.schedule);
  if (!schedule) return fail(schedule.error());
  KernelPlan pinned{.facts = kernel.facts, .in_plan = {}, .candidates = {}};
  std::vector<Rejection> rejections;
  PlanOptions with{.families = options.families, .pin = options.pin, .teams = options.teams};
  with.pin.schedule = std::move(*schedule);
  // The plan decides whether its kernels overlap: the kernel was measured alone, and texts of old
  // databases do not have the field.
  DependentLaunch& launch = with.pin.schedule->dependent_launch;
  if (kernel.row_parts > 0) {
    launch = kernel.chosen().schedule.dependent_launch;
  } else if (launch != DependentLaunch::kTrigger) {
    launch = DependentLaunch::kNone;
  }
  if (auto offered = offer_schedules(pinned, rejections, limits, with); !offered)
    return fail(offered.error());
  const Schedule& chosen = pinned.chosen().schedule;
  // The other kernel of the segment reads its complete results.
  if (kernel.is_part && leaves_partials(kernel.facts, chosen))
    return fail({.kind = ErrorKind::kUnsupported,
                 .message = "the schedule leaves partial results that nothing finishes",
                 .remedy = "tune again"});
  const DependentLaunch planned = kernel.chosen().schedule.dependent_launch;
  if (waits(planned)) start_early(pinned, limits, options.families);
  if (planned == DependentLaunch::kPreload) load_before_waiting(pinned);
  if (planned == DependentLaunch::kTrigger || planned == DependentLaunch::kRelay)
    let_next_start(pinned, limits, options.families);
  return pinned.chosen();
}

Decision decision_of(const KernelPlan& kernel, const TunedSchedule& tuned,
                     const Result<ProposedSchedule>& taken, const TunedChoices& choices) {
  Decision out{.question = std::string(kTunedQuestion)};
  out.candidates.push_back({.what = summary_of(kernel.chosen().schedule),
                            .predicted = kernel.chosen().predicted,
                            .legal = true,
                            .because = fmt::format("measured {:.2f} us", tuned.untuned_us)});
  if (!taken) {
    out.candidates.push_back({.what = what_of(tuned),
                              .predicted = {},
                              .legal = false,
                              .because = taken.error().message});
    out.chosen = "as planned";
    out.because = fmt::format("the tuned schedule from {} is not taken: {}", source_text(choices),
                              taken.error().message);
    return out;
  }
  out.candidates.push_back({.what = summary_of(taken->schedule),
                            .predicted = taken->predicted,
                            .legal = true,
                            .because = fmt::format("measured {:.2f} us", tuned.tuned_us)});
  const bool same = taken->schedule == kernel.chosen().schedule;
  out.chosen = same ? "as planned, which was measured too" : "the tuned schedule";
  out.because = fmt::format("{}: measured {:.2f} us, untuned {:.2f} us, medians of {}",
                            source_text(choices), tuned.tuned_us, tuned.untuned_us, tuned.samples);
  return out;
}

}  // namespace

Result<void> apply_tuned(Plan& plan, const TunedChoices& tuned, const PlanOptions& options) {
  if (tuned.empty()) {
    plan.decisions.push_back({.question = std::string(kTunedQuestion),
                              .chosen = "as planned",
                              .because = fmt::format("{} has nothing about this graph at these "
                                                     "extents, for this device and toolkit",
                                                     source_text(tuned))});
  }
  std::vector<bool> used(tuned.schedules.size());
  // Taking a schedule may add or remove the kernel that finishes a segment's partial results.
  for (KernelId id{0}; plan.kernels.contains(id); id = kernel_after(id)) {
    KernelPlan& kernel = plan.kernels[id];
    if (kernel.finishes) continue;
    const uint64_t hash = structural_hash(kernel.facts.fusion);
    const auto found = std::ranges::find(tuned.schedules, hash, &TunedSchedule::segment);
    if (found == tuned.schedules.end()) continue;
    used[static_cast<size_t>(found - tuned.schedules.begin())] = true;
    auto taken = candidate_of(kernel, *found, plan.limits, options);
    auto& decisions = plan.is_segmented ? kernel.decisions : plan.decisions;
    decisions.push_back(decision_of(kernel, *found, taken, tuned));
    if (!taken) continue;
    const bool is_new = taken->schedule != kernel.chosen().schedule;
    const Schedule schedule = taken->schedule;
    std::erase_if(kernel.candidates, [&](const ProposedSchedule& candidate) {
      return kernel.same_as || candidate.schedule == schedule;
    });
    kernel.candidates.insert(kernel.candidates.begin(), std::move(*taken));
    kernel.is_required = true;
    if (!is_new) continue;
    if (auto finished = plan_finish(plan, id, schedule, options.families); !finished)
      return finished;
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    plan.decisions.push_back(
        {.question = std::string(kTunedQuestion),
         .candidates = {{.what = what_of(tuned.schedules[i]),
                         .predicted = {},
                         .legal = false,
                         .because = "no segment of this plan has the graph it was measured for"}},
         .chosen = "as planned",
         .because = fmt::format("the graph is cut otherwise than when {} was measured",
                                source_text(tuned))});
  }
  return {};
}

}  // namespace sinter
