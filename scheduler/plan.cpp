#include "scheduler/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "fusion_ir/pipeline.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/verifier.h"
#include "scheduler/row_schedule.h"
#include "scheduler/schedule_verifier.h"
#include "scheduler/subgraphs.h"

namespace sinter {
namespace {

std::string describe(const Schedule& schedule) {
  std::string extras;
  std::vector<std::string> kept;
  for (const PersistentValue& value : schedule.persistent)
    kept.push_back(fmt::format("{} in {}", value.value, text_of(value.residency)));
  if (!kept.empty()) extras = fmt::format(", {}", fmt::join(kept, ", "));
  for (const auto& [name, value] : schedule.parameters)
    extras += fmt::format(", {} {}", name, value);
  return fmt::format("{}: {} threads/row x {} rows/block, vector {}, unroll {}{}", schedule.family,
                     schedule.threads_per_row, schedule.rows_per_block, schedule.vector_width,
                     schedule.unroll, extras);
}

std::string limiting_part(const Prediction& predicted) {
  const std::pair<double, const char*> parts[] = {{predicted.memory_us, "memory"},
                                                  {predicted.l2_us, "L2"},
                                                  {predicted.issue_us, "instruction issue"},
                                                  {predicted.special_us, "special functions"},
                                                  {predicted.shared_us, "shared memory"}};
  const auto largest = std::ranges::max_element(parts);
  if (predicted.exposed_us > largest->first)
    return fmt::format("waits {:.1f} us", predicted.exposed_us + largest->first);
  return fmt::format("{} {:.1f} us", largest->second, largest->first);
}

/// Orders candidates: of those within kTieShare of the best, the one that waits least comes first,
/// the others by predicted time.
void rank(std::vector<ProposedSchedule>& candidates, const FamilySet& families) {
  const auto family_rank = [&](const ProposedSchedule& candidate) {
    for (size_t i = 0; i < families.size(); ++i) {
      if (families[i].name == candidate.schedule.family) return i;
    }
    return families.size();
  };
  std::ranges::stable_sort(candidates, [](const ProposedSchedule& a, const ProposedSchedule& b) {
    return a.predicted.total_us < b.predicted.total_us;
  });
  if (candidates.empty()) return;
  const double tie = candidates.front().predicted.total_us * (1.0 + kTieShare);
  // What the model knows least is how well waits hide, so of equals the one that waits least wins,
  // if the compiler need not squeeze its registers.
  const auto safer = [&](const ProposedSchedule& a, const ProposedSchedule& b) {
    const bool squeezed_a = a.estimate.registers > a.estimate.register_cap;
    const bool squeezed_b = b.estimate.registers > b.estimate.register_cap;
    if (squeezed_a != squeezed_b) return squeezed_b;
    if (a.predicted.block_latency_us != b.predicted.block_latency_us)
      return a.predicted.block_latency_us < b.predicted.block_latency_us;
    return family_rank(a) < family_rank(b);
  };
  auto best = candidates.begin();
  for (auto it = candidates.begin(); it != candidates.end() && it->predicted.total_us <= tie;
       ++it) {
    if (safer(*it, *best)) best = it;
  }
  std::rotate(candidates.begin(), best, best + 1);
}

Decision schedule_decision(const SegmentPlan& segment, const std::vector<Rejection>& rejections) {
  Decision decision{.question = "which schedule runs the segment"};
  // The best of each family, and the runners-up of the chosen one.
  std::vector<std::string> shown;
  constexpr size_t kShownPerFamily = 3;
  for (const ProposedSchedule& candidate : segment.candidates) {
    const auto count = static_cast<size_t>(std::ranges::count(shown, candidate.schedule.family));
    if (count >= kShownPerFamily) continue;
    shown.push_back(candidate.schedule.family);
    decision.candidates.push_back({.what = describe(candidate.schedule),
                                   .predicted = candidate.predicted,
                                   .legal = true,
                                   .because = limiting_part(candidate.predicted)});
  }
  for (const Rejection& rejection : rejections) {
    decision.candidates.push_back(
        {.what = rejection.subject, .legal = false, .because = text_of(rejection)});
  }
  const ProposedSchedule& chosen = segment.chosen();
  decision.chosen = describe(chosen.schedule);
  const auto best = std::ranges::min_element(
      segment.candidates, {},
      [](const ProposedSchedule& candidate) { return candidate.predicted.total_us; });
  decision.because = fmt::format("predicted {:.1f} us, bound by {}", chosen.predicted.total_us,
                                 limiting_part(chosen.predicted));
  if (best->predicted.total_us < chosen.predicted.total_us) {
    decision.because += fmt::format(
        "; {} at {:.1f} us is within {:.0f} %, which counts as equal: of equals the one that waits "
        "least wins",
        describe(best->schedule), best->predicted.total_us, kTieShare * 100.0);
  }
  return decision;
}

Decision persistence_decision(const SegmentFacts& facts) {
  Decision decision{.question = "what is kept from one stage to the next"};
  for (const ValueId value : facts.persistent) {
    decision.candidates.push_back(
        {.what = fmt::format("{}", value),
         .because =
             fmt::format("{} bytes per element", bytes_of(facts.fusion.values[value].type))});
  }
  decision.chosen =
      facts.persistent.empty() ? "nothing" : fmt::format("{}", fmt::join(facts.persistent, ", "));
  decision.because =
      facts.persistent.empty()
          ? "no value is needed on both sides of a row barrier"
          : fmt::format(
                "minimum cut: {} bytes per element, everything else is computed again from it",
                facts.persistent_bytes_per_column);
  return decision;
}

/// The rejections as an error: all of them in its log, and below them the graph that their ids
/// belong to, for the caller has only seen the graph before simplification.
Error unsupported(const Fusion& fusion, const std::vector<Rejection>& rejections,
                  std::string message) {
  Error error{.kind = ErrorKind::kUnsupported, .message = std::move(message)};
  for (const Rejection& rejection : rejections) {
    error.log += fmt::format("  {}\n", text_of(rejection));
    const bool is_new = std::ranges::find(error.values, rejection.at) == error.values.end();
    if (rejection.at.valid() && is_new) error.values.push_back(rejection.at);
    // To be sent to a family that refuses as well helps nobody.
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

/// A number of a rejection, rounded; pins may hold numbers at the ends of the range.
int64_t saturated(double value) {
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return value <= -0x1p63 ? std::numeric_limits<int64_t>::min() : std::llround(value);
}

Error unknown_family(std::string message, const FamilySet& families) {
  std::vector<std::string_view> names;
  for (const Family& family : families) names.push_back(family.name);
  return {.kind = ErrorKind::kInvalidArgument,
          .message = std::move(message),
          .remedy = fmt::format("name one of the set ({}), or add yours to PlanOptions::families",
                                fmt::join(names, ", "))};
}

/// "pin threads_per_row to one of 32, 64": what there is for every pinned number that no candidate
/// has, whatever its other fields are.
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

Result<ProposedSchedule> pinned_schedule(const SegmentFacts& facts, const DeviceLimits& limits,
                                         const PlanOptions& options) {
  const Schedule& schedule = *options.pin.schedule;
  const Family* family = find_family(options.families, schedule.family);
  if (family == nullptr) {
    return fail(unknown_family(
        fmt::format("the pinned schedule names the family '{}', which is not in the set",
                    schedule.family),
        options.families));
  }
  if (!options.pin.matches(schedule)) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("the pinned schedule does not have the {} pinned beside it",
                                        options.pin.text()),
                 .remedy = "pin a whole schedule or single fields, not both"});
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

/// Fills a segment's candidates with what the families offer and the pins let through, best first;
/// adds why the others offer nothing. Errors: Unsupported, ResourceExhausted, InvalidArgument.
Result<void> offer(SegmentPlan& segment, std::vector<Rejection>& rejections,
                   const DeviceLimits& limits, const PlanOptions& options) {
  if (options.pin.schedule) {
    auto pinned = pinned_schedule(segment.facts, limits, options);
    if (!pinned) return fail(pinned.error());
    segment.candidates.push_back(std::move(*pinned));
    return {};
  }
  const std::optional<std::string>& family_name = options.pin.family;
  if (family_name && find_family(options.families, *family_name) == nullptr) {
    return fail(unknown_family(
        fmt::format("the pinned family '{}' is not in the set", *family_name), options.families));
  }
  for (const Family& family : options.families) {
    Proposal proposal = family.propose(segment.facts, limits);
    for (ProposedSchedule& candidate : proposal.candidates)
      segment.candidates.push_back(std::move(candidate));
    for (Rejection& rejection : proposal.rejections) rejections.push_back(std::move(rejection));
  }
  const Fusion& fusion = segment.facts.fusion;
  if (segment.candidates.empty()) {
    return fail(unsupported(fusion, rejections,
                            fmt::format("no schedule family takes the fusion '{}'", fusion.name)));
  }
  const auto meets = [&](const ProposedSchedule& candidate) {
    return options.pin.matches(candidate.schedule);
  };
  if (!std::ranges::any_of(segment.candidates, meets)) {
    Error error = unsupported(fusion, rejections,
                              fmt::format("none of {} legal schedules has the pinned {}",
                                          segment.candidates.size(), options.pin.text()));
    error.remedy = offered_instead(options.pin, segment.candidates);
    error.kind = ErrorKind::kResourceExhausted;
    return fail(std::move(error));
  }
  std::erase_if(segment.candidates, [&](const ProposedSchedule& c) { return !meets(c); });
  rank(segment.candidates, options.families);
  return {};
}

/// Rows and columns of a segment in a kernel each, and what passes from one to the other.
struct SplitPlan {
  SegmentPlan rows;
  SegmentPlan columns;
  std::vector<WorkspaceTensor> workspace;
  [[nodiscard]] double predicted_us() const {
    return rows.chosen().predicted.total_us + columns.chosen().predicted.total_us;
  }
};

/// Absent where a segment has not both kinds of reductions, or a part has no schedule. Pins are for
/// the rows.
std::optional<SplitPlan> split_plan(const SegmentFacts& facts, const DeviceLimits& limits,
                                    const PlanOptions& options) {
  if (!facts.has_outer() || !facts.has_reduction()) return std::nullopt;
  RowsAndColumns parts = split_rows_and_columns(facts);
  std::vector<Rejection> rejections;
  const auto planned = [&](Subgraph part, const PlanOptions& own) -> std::optional<SegmentPlan> {
    if (part.fusion.outputs.empty()) return std::nullopt;
    auto part_facts = analyse(std::move(part.fusion));
    if (!part_facts) return std::nullopt;
    SegmentPlan segment{
        .facts = std::move(*part_facts), .in_plan = std::move(part.in_plan), .candidates = {}};
    if (!offer(segment, rejections, limits, own)) return std::nullopt;
    // Partial results would need a kernel more.
    std::erase_if(segment.candidates, [](const ProposedSchedule& candidate) {
      return candidate.schedule.persistent_blocks != 0;
    });
    if (segment.candidates.empty()) return std::nullopt;
    rank(segment.candidates, own.families);
    return segment;
  };
  auto rows = planned(std::move(parts.rows), options);
  if (!rows) return std::nullopt;
  auto columns = planned(std::move(parts.columns), {.families = options.families});
  if (!columns) return std::nullopt;
  SplitPlan out{.rows = std::move(*rows), .columns = std::move(*columns), .workspace = {}};
  const Binding binding{};  // The planned fusion is specialised.
  for (const ValueId value : parts.passed) {
    const Value& info = facts.fusion.values[value];
    out.workspace.push_back(
        {value, element_count(binding.sizes_of(info.shape)) * bytes_of(info.type)});
  }
  return out;
}

/// The family that the pins ask for by name.
std::optional<std::string> pinned_family(const SchedulePin& pin) {
  return pin.schedule ? std::optional(pin.schedule->family) : pin.family;
}

/// A pin is for the one kernel of a segment. Two kernels meet it, with the rows, only if it names a
/// family that no segment of both kinds of reductions has a schedule of.
bool may_split(const SegmentFacts& facts, const DeviceLimits& limits, const PlanOptions& options) {
  if (options.pin == SchedulePin{}) return true;
  const auto name = pinned_family(options.pin);
  const Family* family = name ? find_family(options.families, *name) : nullptr;
  return family != nullptr && family->propose(facts, limits).candidates.empty();
}

/// `joint` is null where no schedule takes both.
Decision pass_decision(const SegmentPlan* joint, const SplitPlan& split, bool pinned) {
  Decision decision{.question = "do rows and columns share one pass over memory"};
  const auto add = [&](std::string what, double us) {
    decision.candidates.push_back(
        {.what = std::move(what), .predicted = {.total_us = us}, .legal = true, .because = ""});
  };
  const double apart = split.predicted_us();
  if (joint != nullptr) add("one pass", joint->chosen().predicted.total_us);
  add("a kernel for the rows, then one for the columns", apart);
  const bool together = joint != nullptr && (pinned || joint->chosen().predicted.total_us <= apart);
  decision.chosen = together ? "one pass" : "a kernel each";
  if (joint == nullptr) {
    decision.because = pinned ? "the pinned family takes no segment with both kinds of reductions"
                              : "no schedule keeps accumulators of all columns while it walks rows";
  } else if (pinned) {
    decision.because = "one kernel meets the pins";
  } else {
    decision.because = fmt::format("predicted {:.1f} us in one pass, {:.1f} us in a kernel each",
                                   joint->chosen().predicted.total_us, apart);
  }
  return decision;
}

}  // namespace

bool SchedulePin::matches(const Schedule& candidate) const {
  if (family && candidate.family != *family) return false;
  if (threads_per_row && candidate.threads_per_row != *threads_per_row) return false;
  if (rows_per_block && candidate.rows_per_block != *rows_per_block) return false;
  if (vector_width && candidate.vector_width != *vector_width) return false;
  if (unroll && candidate.unroll != *unroll) return false;
  if (!residency) return true;
  return !candidate.persistent.empty() &&
         std::ranges::all_of(candidate.persistent, [&](const PersistentValue& value) {
           return value.residency == *residency;
         });
}

std::string SchedulePin::text() const {
  std::string out;
  const auto add = [&](std::string_view name, const auto& field) {
    if (field) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, *field);
  };
  add("family", family);
  add("threads_per_row", threads_per_row);
  add("rows_per_block", rows_per_block);
  add("vector_width", vector_width);
  add("unroll", unroll);
  if (residency) out += fmt::format("{}residency {}", out.empty() ? "" : ", ", text_of(*residency));
  return out;
}

Result<Plan> plan(const Fusion& fusion, const ExtentValues& extents, const DeviceLimits& limits,
                  const PlanOptions& options) {
  if (const auto violations = verify(fusion); !violations.empty()) {
    Error error{.kind = ErrorKind::kInvalidFusion,
                .message = fmt::format("the fusion '{}' breaks {} invariant(s)", fusion.name,
                                       violations.size()),
                .remedy = "build it with FusionBuilder or parse_fusion, which check as they go"};
    for (const Violation& violation : violations) {
      error.log += fmt::format("{}  {}", error.log.empty() ? "" : "\n", violation.message);
      if (violation.value.valid()) error.values.push_back(violation.value);
      if (violation.op.valid()) error.ops.push_back(violation.op);
    }
    return fail(std::move(error));
  }
  auto binding = bind_extents(fusion, extents);
  if (!binding) return fail(binding.error());

  Plan out{.fusion = specialize(fusion, *binding),
           .binding = *binding,
           .limits = limits,
           .segments = {},
           .workspace = {},
           .decisions = {},
           .rejections = {}};
  if (options.simplify) out.fusion = simplify(out.fusion);

  auto facts = analyse(out.fusion);
  if (!facts)
    return fail(unsupported(out.fusion, {facts.error()},
                            fmt::format("no family can walk the fusion '{}'", fusion.name)));
  SegmentPlan segment{.facts = std::move(*facts), .in_plan = {}, .candidates = {}};
  const Result<void> offered = offer(segment, out.rejections, limits, options);
  // A mistake in the options is not mended by other kernels.
  if (!offered && offered.error().kind == ErrorKind::kInvalidArgument) return fail(offered.error());

  const bool pinned = !(options.pin == SchedulePin{});
  std::optional<SplitPlan> split;
  if (may_split(segment.facts, limits, options)) split = split_plan(segment.facts, limits, options);
  if (split && offered &&
      (pinned || split->predicted_us() >= segment.chosen().predicted.total_us)) {
    out.decisions.push_back(pass_decision(&segment, *split, pinned));
    split.reset();
  } else if (split) {
    out.decisions.push_back(pass_decision(offered ? &segment : nullptr, *split, pinned));
  }
  if (!split && !offered) return fail(offered.error());
  if (split) {
    for (SegmentPlan* part : {&split->rows, &split->columns}) {
      out.decisions.push_back(persistence_decision(part->facts));
      out.decisions.push_back(schedule_decision(*part, out.rejections));
      out.segments.push_back(std::move(*part));
    }
    out.workspace = std::move(split->workspace);
    return out;
  }
  out.decisions.push_back(persistence_decision(segment.facts));
  out.decisions.push_back(schedule_decision(segment, out.rejections));
  out.segments.push_back(std::move(segment));
  const Schedule chosen = out.segments.front().chosen().schedule;
  if (auto finished = plan_finish(out, chosen, options.families); !finished)
    return fail(finished.error());
  return out;
}

double Plan::predicted_us() const {
  double us = 0.0;
  for (const SegmentPlan& segment : segments) {
    us += segment.chosen().predicted.total_us;
    if (segment.chosen().predicted.second_stage_us > 0.0) break;
  }
  return us;
}

Result<void> plan_finish(Plan& plan, const Schedule& schedule, const FamilySet& families) {
  constexpr std::string_view kQuestion = "which schedule finishes the partial results";
  if (!plan.segments.front().facts.has_outer()) return {};
  plan.segments.resize(1);
  plan.workspace.clear();
  std::erase_if(plan.decisions,
                [&](const Decision& decision) { return decision.question == kQuestion; });
  const SegmentFacts& facts = plan.segments.front().facts;
  if (schedule.persistent_blocks == 0) return {};

  const int64_t rows = partial_rows(schedule);
  for (const OpId id : facts.outer_reductions) {
    const ValueId result = facts.fusion.ops[id].results.front();
    plan.workspace.push_back(
        {result, rows * facts.space.columns * bytes_of(facts.fusion.values[result].type)});
  }
  Subgraph finish = finish_of(facts, rows);
  auto finish_facts = analyse(std::move(finish.fusion));
  if (!finish_facts)
    return fail(unsupported(facts.fusion, {finish_facts.error()},
                            "the partial results cannot be finished"));
  SegmentPlan segment{
      .facts = std::move(*finish_facts), .in_plan = std::move(finish.in_plan), .candidates = {}};
  std::vector<Rejection> rejections;
  for (const Family& family : families) {
    Proposal proposal = family.propose(segment.facts, plan.limits);
    // What finishes must not leave partial results of its own.
    for (ProposedSchedule& candidate : proposal.candidates) {
      if (candidate.schedule.persistent_blocks != 0) continue;
      if (schedule.overlap == Overlap::kNext) candidate.schedule.overlap = Overlap::kPrevious;
      segment.candidates.push_back(std::move(candidate));
    }
    for (Rejection& rejection : proposal.rejections) rejections.push_back(std::move(rejection));
  }
  if (segment.candidates.empty()) {
    return fail(unsupported(segment.facts.fusion, rejections,
                            "no schedule family finishes the partial results"));
  }
  rank(segment.candidates, families);
  Decision decision = schedule_decision(segment, rejections);
  decision.question = kQuestion;
  plan.decisions.push_back(std::move(decision));
  plan.segments.push_back(std::move(segment));
  return {};
}

TensorSlot slot_of(const Plan& plan, size_t segment, ValueId value, bool written) {
  const std::map<ValueId, ValueId>& in_plan = plan.segments[segment].in_plan;
  const ValueId id = in_plan.empty() ? value : in_plan.at(value);
  // Partial results go by the name of what they are partial results of: a later segment that reads
  // them may write the finished ones as an output.
  for (size_t i = 0; i < plan.workspace.size(); ++i) {
    const WorkspaceTensor& tensor = plan.workspace[i];
    if (tensor.value == id && (written ? segment == tensor.writer : segment > tensor.writer))
      return {TensorSlot::Kind::kWorkspace, i};
  }
  const auto index_in = [&](const std::vector<ValueId>& values) {
    return static_cast<size_t>(std::ranges::find(values, id) - values.begin());
  };
  if (const size_t input = index_in(plan.fusion.inputs); input < plan.fusion.inputs.size())
    return {TensorSlot::Kind::kInput, input};
  const size_t output = index_in(plan.fusion.outputs);
  SINTER_CHECK(output < plan.fusion.outputs.size(), "{} is neither input nor output", id);
  return {TensorSlot::Kind::kOutput, output};
}

}  // namespace sinter
