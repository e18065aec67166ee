#include "scheduler/segmentation/offers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

#include "fusion_ir/nearest_name.h"
#include "fusion_ir/printer.h"
#include "scheduler/analysis/in_place.h"
#include "scheduler/analysis/kept_value.h"
#include "scheduler/cost/last_block_time.h"
#include "scheduler/families/overwriting.h"
#include "scheduler/families/schedule_verifier.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/schedule/family_names.h"
#include "scheduler/schedule/last_block.h"

namespace sinter {
namespace {

std::string limiting_part(const Prediction& predicted) {
  const std::pair<double, const char*> parts[] = {
      {predicted.memory_us, "memory"},           {predicted.l2_us, "L2"},
      {predicted.issue_us, "instruction issue"}, {predicted.special_us, "special functions"},
      {predicted.shared_us, "shared memory"},    {predicted.matrix_us, "matrix instructions"}};
  const auto largest = std::ranges::max_element(parts);
  if (predicted.exposed_us > largest->first)
    return fmt::format("waits {:.1f} us", predicted.exposed_us + largest->first);
  return fmt::format("{} {:.1f} us", largest->second, largest->first);
}

/// A number of a rejection, rounded. Pins may have numbers at the ends of the range.
int64_t saturated(double value) {
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return value <= -0x1p63 ? std::numeric_limits<int64_t>::min() : std::llround(value);
}

/// Adds to the rejection which tensor exceeds a budget, by the name that the caller knows: ids are
/// those of a segment.
void name_tensor(const Fusion& fusion, Rejection& rejection) {
  if (!rejection.at.valid() || !fusion.values.contains(rejection.at)) return;
  const Value& value = fusion.values[rejection.at];
  const int64_t bytes = element_count(value.shape) * bytes_of(value.type);
  rejection.rule += value.name.empty() ? fmt::format(": a tensor of {} bytes", bytes)
                                       : fmt::format(": '{}' of {} bytes", value.name, bytes);
}

Error unknown_family(std::string message, std::string_view wrong, const FamilySet& families) {
  std::vector<std::string_view> names;
  for (const Family& family : families) names.push_back(family.name);
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = suggestion(
              wrong, names,
              fmt::format("name one of the set ({}), or add yours to PlanOptions::families",
                          fmt::join(names, ", ")))};
}

/// "pin threads_per_row to one of 32, 64": the offered values of every pinned number that no
/// candidate has, whatever its other fields are.
std::string offered_instead(const SchedulePin& pin,
                            const std::vector<ProposedSchedule>& candidates) {
  std::vector<std::string> out;
  const auto add = [&](std::string_view name, const std::optional<int64_t>& pinned,
                       int64_t Schedule::*field) {
    if (!pinned) return;
    std::set<int64_t> offered;
    for (const ProposedSchedule& candidate : candidates) offered.insert(candidate.schedule.*field);
    if (!offered.contains(*pinned))
      out.push_back(fmt::format("pin {} to one of {}", name, fmt::join(offered, ", ")));
  };
  add("threads_per_row", pin.threads_per_row, &Schedule::threads_per_row);
  add("rows_per_block", pin.rows_per_block, &Schedule::rows_per_block);
  add("vector_width", pin.vector_width, &Schedule::vector_width);
  add("unroll", pin.unroll, &Schedule::unroll);
  if (out.empty()) return "loosen the pin; `sinter explain` lists the candidates";
  return fmt::format("{}", fmt::join(out, ", "));
}

/// False for schedules of teams where the caller wants none.
bool allows(const PlanOptions& options, const Schedule& schedule) {
  return options.teams || schedule.exchange() != ExchangeKind::kMessages;
}

Result<ProposedSchedule> pinned_schedule(const SegmentFacts& facts, const DeviceLimits& limits,
                                         const PlanOptions& options) {
  const Schedule& schedule = *options.pin.schedule;
  const Family* family = find_family(options.families, schedule.family);
  if (family == nullptr) {
    return fail(unknown_family(
        fmt::format("the pinned schedule names the family '{}', which is not in the set",
                    schedule.family),
        schedule.family, options.families));
  }
  if (!options.pin.matches(schedule)) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("the pinned schedule does not have the {} pinned beside it",
                                        options.pin.text()),
                 .remedy = "pin a whole schedule or single fields, not both"});
  }
  if (!allows(options, schedule)) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = "the pinned schedule has exchange messages, and the options rule out "
                            "blocks that wait for each other (teams = false)",
                 .remedy = "pin exchange cluster, or allow teams"});
  }
  const auto rejections = verify_schedule(facts, schedule, limits, options.families);
  if (!rejections.empty()) {
    const Rejection& first = rejections.front();
    Error error = unsupported(
        facts.fusion, rejections,
        fmt::format("the pinned schedule is refused: {}: {}", first.subject, first.rule));
    error.kind = ErrorKind::kResourceExhausted;
    if (!first.unit.empty()) {
      error.measured = saturated(first.value);
      error.limit = saturated(first.limit);
    }
    return fail(std::move(error));
  }
  const auto estimate = family->estimate(facts, schedule, limits);
  return ProposedSchedule{schedule, *estimate, family->predict(facts, schedule, *estimate, limits)};
}

/// Number of schedules with partial results that are also offered with a last-block reduction:
/// those that would be the fastest if the reduction cost only its own time. More would lengthen
/// planning.
constexpr size_t kLastBlockOffers = 4;

/// Offers schedules also with a last-block reduction, if it is predicted to finish sooner than a
/// second kernel.
void offer_last_block_finish(KernelPlan& kernel, const DeviceLimits& limits,
                             const FamilySet& families) {
  if (!kernel.facts.has_outer()) return;
  struct Offer {
    const ProposedSchedule* candidate = nullptr;
    const Family* family = nullptr;
    double us = 0.0;  ///< Total time, if the last-block reduction changes nothing else.
  };
  std::vector<Offer> worth;
  const auto total = [](const ProposedSchedule& candidate) { return candidate.predicted.total_us; };
  const double best_us = total(*std::ranges::min_element(kernel.candidates, {}, total));
  const double least_us = limits.cost.last_block_ns / 1000.0;
  for (const ProposedSchedule& candidate : kernel.candidates) {
    // Most schedules would not be the fastest even at the least cost of a last-block reduction.
    const double most_saved = candidate.predicted.second_stage_us - least_us;
    if (candidate.schedule.persistent_blocks == 0 || total(candidate) - most_saved >= best_us)
      continue;
    const Family* family = find_family(families, candidate.schedule.family);
    if (!family->can_finish_by_last_block) continue;
    const double saved = candidate.predicted.second_stage_us -
                         last_block_time(kernel.facts, candidate.schedule, limits);
    if (saved > 0.0) worth.push_back({&candidate, family, total(candidate) - saved});
  }
  const size_t count = std::min(kLastBlockOffers, worth.size());
  std::ranges::partial_sort(worth, worth.begin() + static_cast<ptrdiff_t>(count), {}, &Offer::us);
  std::vector<ProposedSchedule> offers;
  for (size_t i = 0; i < count; ++i) {
    const ProposedSchedule& leaves = *worth[i].candidate;
    Schedule schedule = leaves.schedule;
    schedule.finish = Finish::kLastBlock;
    schedule.dependent_launch = DependentLaunch::kNone;
    if (check_last_block(kernel.facts, schedule)) return;
    const auto estimate = worth[i].family->estimate(kernel.facts, schedule, limits);
    if (!estimate || estimate->spilled_registers > leaves.estimate.spilled_registers) continue;
    const Prediction predicted =
        worth[i].family->predict(kernel.facts, schedule, *estimate, limits);
    offers.push_back({std::move(schedule), *estimate, predicted});
  }
  std::ranges::move(offers, std::back_inserter(kernel.candidates));
}

/// True if the estimated registers exceed the cap by more than the error of the estimate.
bool lacks_registers(const ResourceEstimate& estimate) {
  return static_cast<double>(estimate.registers) >
         static_cast<double>(estimate.register_cap) * (1.0 + kRegisterDoubt);
}

/// The reason why a schedule was chosen over a faster one that counts as equal, as rank_schedules()
/// decides.
std::string why_safer(const ProposedSchedule& chosen, const ProposedSchedule& faster) {
  if (lacks_registers(faster.estimate) && !lacks_registers(chosen.estimate)) {
    return fmt::format(", but would be limited to {1} of {0} registers", faster.estimate.registers,
                       faster.estimate.register_cap);
  }
  if (chosen.predicted.block_latency_us < faster.predicted.block_latency_us) {
    return fmt::format(": of equals the one whose blocks wait least wins, {:.2f} us and not {:.2f}",
                       chosen.predicted.block_latency_us, faster.predicted.block_latency_us);
  }
  return ": of equals the safer family wins";
}

/// Sorts by predicted time, stably. Moves each candidate once, since they are large.
void sort_by_prediction(std::vector<ProposedSchedule>& candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return candidates[i].predicted.total_us; });
  std::vector<ProposedSchedule> sorted;
  sorted.reserve(candidates.size());
  for (const size_t i : order) sorted.push_back(std::move(candidates[i]));
  candidates = std::move(sorted);
}

}  // namespace

void rank_schedules(std::vector<ProposedSchedule>& candidates, const FamilySet& families) {
  const auto family_rank = [&](const ProposedSchedule& candidate) {
    for (size_t i = 0; i < families.size(); ++i) {
      if (families[i].name == candidate.schedule.family) return i;
    }
    return families.size();
  };
  sort_by_prediction(candidates);
  if (candidates.empty()) return;
  const Family* family = find_family(families, candidates.front().schedule.family);
  if (family != nullptr && family->models_latency) return;
  const Prediction& fastest = candidates.front().predicted;
  const bool mostly_waits =
      fastest.launch_us + fastest.exposed_us > kWaitingShare * fastest.total_us;
  if (fastest.models_latency && mostly_waits) return;
  const double tie = fastest.total_us * (1.0 + kTieShare);
  // The model is least certain about the code that the compiler makes of register-limited kernels
  // and, where it was not fitted, about latency hiding.
  const bool by_time = fastest.models_latency;
  const auto safer = [&](const ProposedSchedule& a, const ProposedSchedule& b) {
    if (lacks_registers(a.estimate) != lacks_registers(b.estimate))
      return lacks_registers(b.estimate);
    if (by_time && a.predicted.total_us != b.predicted.total_us)
      return a.predicted.total_us < b.predicted.total_us;
    if (a.predicted.block_latency_us != b.predicted.block_latency_us)
      return a.predicted.block_latency_us < b.predicted.block_latency_us;
    return family_rank(a) < family_rank(b);
  };
  auto best = candidates.begin();
  // A last-block reduction saves no latency of a block; it saves a launch that other candidates do
  // not have. It therefore comes first only if it is the fastest.
  const bool by_last_block = candidates.front().schedule.finish == Finish::kLastBlock;
  for (auto it = candidates.begin(); it != candidates.end() && it->predicted.total_us <= tie;
       ++it) {
    if (it->schedule.finish == Finish::kLastBlock && !by_last_block) continue;
    if (safer(*it, *best)) best = it;
  }
  std::rotate(candidates.begin(), best, best + 1);
}

Decision schedule_decision(const KernelPlan& kernel, const std::vector<Rejection>& rejections) {
  Decision decision{.question = "which schedule runs the segment"};
  // The best three candidates of each family.
  std::vector<std::string> shown;
  constexpr size_t kShownPerFamily = 3;
  for (const ProposedSchedule& candidate : kernel.candidates) {
    const auto count = static_cast<size_t>(std::ranges::count(shown, candidate.schedule.family));
    if (count >= kShownPerFamily) continue;
    shown.push_back(candidate.schedule.family);
    decision.candidates.push_back({.what = summary_of(candidate.schedule),
                                   .predicted = candidate.predicted,
                                   .legal = true,
                                   .because = limiting_part(candidate.predicted)});
  }
  for (const Rejection& rejection : rejections) {
    decision.candidates.push_back(
        {.what = rejection.subject, .legal = false, .because = text_of(rejection)});
  }
  const ProposedSchedule& chosen = kernel.chosen();
  decision.chosen = summary_of(chosen.schedule);
  const auto best = std::ranges::min_element(
      kernel.candidates, {},
      [](const ProposedSchedule& candidate) { return candidate.predicted.total_us; });
  decision.because = fmt::format("predicted {:.1f} us, bound by {}", chosen.predicted.total_us,
                                 limiting_part(chosen.predicted));
  if (best->predicted.total_us < chosen.predicted.total_us) {
    decision.because += fmt::format("; {} at {:.1f} us is within {:.1f} %, which counts as equal{}",
                                    summary_of(best->schedule), best->predicted.total_us,
                                    kTieShare * 100.0, why_safer(chosen, *best));
  }
  if (chosen.schedule.exchange() == ExchangeKind::kMessages) {
    const auto other = std::ranges::find_if(kernel.candidates, [](const ProposedSchedule& c) {
      return c.schedule.exchange() != ExchangeKind::kMessages;
    });
    if (other != kernel.candidates.end()) {
      decision.because += fmt::format(
          "; its blocks run at the same time or not at all, else (PlanOptions::teams = false) "
          "{} at {:.1f} us",
          summary_of(other->schedule), other->predicted.total_us);
    }
  }
  return decision;
}

Decision persistence_decision(const SegmentFacts& facts) {
  Decision decision{.question = "what is kept from one stage to the next"};
  for (const ValueId value : facts.kept) {
    decision.candidates.push_back(
        {.what = fmt::format("{}", value),
         .because =
             fmt::format("{} bytes per element", bytes_of(facts.fusion.values[value].type))});
  }
  if (facts.kept.empty()) {
    decision.chosen = "nothing";
    decision.because = "no value is needed on both sides of a row barrier";
    return decision;
  }
  decision.chosen = fmt::format("{}", fmt::join(facts.kept, ", "));
  decision.because = fmt::format(
      "minimum cut: {} bytes per element, everything else is computed again from it or read once",
      facts.kept_bytes_per_column);
  return decision;
}

Error unsupported(const Fusion& fusion, const std::vector<Rejection>& rejections,
                  std::string message) {
  Error error{.kind = ErrorKind::kUnsupported, .message = std::move(message)};
  for (const Rejection& rejection : rejections) {
    error.log += fmt::format("  {}\n", text_of(rejection));
    const bool is_new = std::ranges::find(error.values, rejection.at) == error.values.end();
    if (rejection.at.valid() && is_new) error.values.push_back(rejection.at);
    // A remedy that names a family which rejects the segment too is no help.
    const bool leads_on = std::ranges::none_of(rejections, [&](const Rejection& other) {
      return rejection.remedy.find(other.subject) != std::string::npos;
    });
    if (error.remedy.empty() && leads_on) error.remedy = rejection.remedy;
  }
  if (error.remedy.empty())
    error.remedy = "`sinter explain` tells more; cut the fusion into others";
  error.log += fmt::format("in the simplified graph\n{}", print(fusion));
  return error;
}

namespace {

/// Drops schedules that would read elements that they have overwritten, and adds one rejection for
/// them. Those that would do so only after the last row get fewer rows per block.
void drop_overwriting(const SegmentFacts& facts, const Family& family, const DeviceLimits& limits,
                      Proposal& proposal) {
  if (facts.in_place.empty()) return;
  for (ProposedSchedule& candidate : proposal.candidates) {
    Schedule& schedule = candidate.schedule;
    if (facts.space.rows % rows_of_slots(schedule, family) == 0 ||
        schedule.rows_per_iteration() > 1)
      continue;
    Schedule divided = schedule;
    divided.rows_per_block = std::gcd(schedule.rows_per_block, facts.space.rows);
    if (facts.space.rows % rows_of_slots(divided, family) != 0) divided.unroll = 1;
    const auto estimate = family.estimate(facts, divided, limits);
    if (!estimate) continue;
    candidate = {divided, *estimate, family.predict(facts, divided, *estimate, limits)};
  }
  std::optional<Rejection> why;
  std::erase_if(proposal.candidates, [&](const ProposedSchedule& candidate) {
    auto rejection = check_in_place(facts, candidate.schedule, family);
    if (rejection && !why) why = rejection;
    return rejection.has_value();
  });
  if (why) proposal.rejections.push_back(std::move(*why));
}

}  // namespace

namespace {

/// The schedules of a kernel that take part in a dependent launch as the plan says.
std::vector<ProposedSchedule*> with_dependent_launch(KernelPlan& kernel, const DeviceLimits& limits,
                                                     const FamilySet& families) {
  std::vector<ProposedSchedule*> out;
  // Kernels of lists are compiled once for all lists of a plan, the first one among them.
  if (!limits.has_dependent_launch || kernel.facts.list) return out;
  for (ProposedSchedule& candidate : kernel.candidates) {
    const Schedule& schedule = candidate.schedule;
    if (schedule.dependent_launch != DependentLaunch::kTrigger &&
        schedule.finish != Finish::kLastBlock && schedule.exchange() != ExchangeKind::kMessages &&
        !is_library_call(families, schedule.family))
      out.push_back(&candidate);
  }
  return out;
}

}  // namespace

void start_early(KernelPlan& kernel, const DeviceLimits& limits, const FamilySet& families) {
  for (ProposedSchedule* const candidate : with_dependent_launch(kernel, limits, families)) {
    Schedule& schedule = candidate->schedule;
    schedule.dependent_launch = DependentLaunch::kWait;
    candidate->predicted = find_family(families, schedule.family)
                               ->predict(kernel.facts, schedule, candidate->estimate, limits);
  }
}

void let_next_start(KernelPlan& kernel, const DeviceLimits& limits, const FamilySet& families) {
  for (ProposedSchedule* const candidate : with_dependent_launch(kernel, limits, families)) {
    DependentLaunch& launch = candidate->schedule.dependent_launch;
    if (launch == DependentLaunch::kNone) launch = DependentLaunch::kTrigger;
    if (launch == DependentLaunch::kWait) launch = DependentLaunch::kRelay;
  }
}

void load_before_waiting(KernelPlan& kernel) {
  for (ProposedSchedule& candidate : kernel.candidates) {
    Schedule& schedule = candidate.schedule;
    if (schedule.dependent_launch == DependentLaunch::kWait && schedule.slice_warps() > 0)
      schedule.dependent_launch = DependentLaunch::kPreload;
  }
}

std::string summary_of(const Schedule& schedule) {
  if (schedule.family == kCublasLt)
    return fmt::format("{}: the library chooses its kernel", schedule.family);
  std::string extras;
  std::vector<std::string> kept;
  for (const KeptValue& value : schedule.kept)
    kept.push_back(fmt::format("{} in {}", value.value, text_of(value.residency)));
  if (!kept.empty()) extras = fmt::format(", {}", fmt::join(kept, ", "));
  extras += further_numbers(schedule);
  return fmt::format("{}: {} threads/row x {} rows/block, vector {}, unroll {}{}", schedule.family,
                     schedule.threads_per_row, schedule.rows_per_block, schedule.vector_width,
                     schedule.unroll, extras);
}

Result<void> offer_schedules(KernelPlan& kernel, std::vector<Rejection>& rejections,
                             const DeviceLimits& limits, const PlanOptions& options) {
  if (options.pin.schedule) {
    auto pinned = pinned_schedule(kernel.facts, limits, options);
    if (!pinned) return fail(pinned.error());
    kernel.candidates.push_back(std::move(*pinned));
    kernel.is_required = true;
    return {};
  }
  const std::optional<std::string>& family_name = options.pin.family;
  if (family_name && find_family(options.families, *family_name) == nullptr) {
    return fail(
        unknown_family(fmt::format("the pinned family '{}' is not in the set", *family_name),
                       *family_name, options.families));
  }
  const auto is_ruled_out = [&](const ProposedSchedule& candidate) {
    return !allows(options, candidate.schedule);
  };
  for (const Family& family : options.families) {
    if (!is_for(family, kernel.facts)) {
      // Who pins it is told why it offers nothing.
      if (family_name == family.name)
        rejections.push_back(refusal_of(family, kernel.facts).value());
      continue;
    }
    Proposal proposal = family.propose(kernel.facts, limits);
    std::erase_if(proposal.candidates, is_ruled_out);
    // A family from outside that has no parameters need not say so.
    const FamilyParameters defaults = parameters_of_family(family.name);
    if (std::holds_alternative<ExternalParameters>(defaults)) {
      for (ProposedSchedule& candidate : proposal.candidates) {
        FamilyParameters& own = candidate.schedule.parameters;
        if (std::holds_alternative<NoParameters>(own)) own = defaults;
      }
    }
    drop_overwriting(kernel.facts, family, limits, proposal);
    if (kernel.candidates.empty()) {
      kernel.candidates = std::move(proposal.candidates);
    } else {
      std::ranges::move(proposal.candidates, std::back_inserter(kernel.candidates));
    }
    for (Rejection& rejection : proposal.rejections) {
      name_tensor(kernel.facts.fusion, rejection);
      rejections.push_back(std::move(rejection));
    }
  }
  const Fusion& fusion = kernel.facts.fusion;
  if (kernel.candidates.empty() && rejections.empty()) {
    rejections.push_back(rejected_at("families", "no family of the set is for such a segment", {},
                                     "use builtin_families()"));
  }
  if (kernel.candidates.empty()) {
    return fail(unsupported(fusion, rejections,
                            fmt::format("no schedule family takes the fusion '{}'", fusion.name)));
  }
  const auto satisfies = [&](const ProposedSchedule& candidate) {
    return options.pin.matches(candidate.schedule);
  };
  if (!std::ranges::any_of(kernel.candidates, satisfies)) {
    Error error = unsupported(fusion, rejections,
                              fmt::format("none of {} legal schedules has the pinned {}",
                                          kernel.candidates.size(), options.pin.text()));
    error.remedy = offered_instead(options.pin, kernel.candidates);
    kernel.candidates.clear();
    error.kind = ErrorKind::kResourceExhausted;
    return fail(std::move(error));
  }
  std::erase_if(kernel.candidates, [&](const ProposedSchedule& c) { return !satisfies(c); });
  offer_last_block_finish(kernel, limits, options.families);
  rank_schedules(kernel.candidates, options.families);
  return {};
}

}  // namespace sinter
