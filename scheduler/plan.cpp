#include "scheduler/plan.h"

#include <algorithm>
#include <optional>

#include "fusion_ir/pipeline.h"
#include "fusion_ir/verifier.h"
#include "scheduler/cost_model.h"
#include "scheduler/offers.h"
#include "scheduler/row_schedule.h"
#include "scheduler/subgraphs.h"
#include "scheduler/ticket.h"

namespace sinter {
namespace {

/// Rows and columns of a segment in a kernel each, and what passes from one to the other.
struct SplitPlan {
  SegmentPlan rows;
  SegmentPlan columns;
  std::vector<WorkspaceTensor> workspace;
  [[nodiscard]] double predicted_us() const {
    return rows.chosen().predicted.total_us + columns.chosen().predicted.total_us;
  }
};

/// The two segments without candidates. Absent where a segment has not both kinds of reductions, or
/// a part cannot be walked.
std::optional<SplitPlan> split_segment(const SegmentFacts& facts) {
  if (!facts.has_outer() || !facts.has_reduction()) return std::nullopt;
  RowsAndColumns parts = split_rows_and_columns(facts);
  const auto analysed = [](Subgraph part) -> std::optional<SegmentPlan> {
    if (part.fusion.outputs.empty()) return std::nullopt;
    auto part_facts = analyse(std::move(part.fusion));
    if (!part_facts) return std::nullopt;
    return SegmentPlan{
        .facts = std::move(*part_facts), .in_plan = std::move(part.in_plan), .candidates = {}};
  };
  auto rows = analysed(std::move(parts.rows));
  auto columns = analysed(std::move(parts.columns));
  if (!rows || !columns) return std::nullopt;
  SplitPlan out{.rows = std::move(*rows), .columns = std::move(*columns), .workspace = {}};
  const Binding binding{};  // The planned fusion is specialised.
  for (const ValueId value : parts.passed) {
    const Value& info = facts.fusion.values[value];
    out.workspace.push_back(
        {value, element_count(binding.sizes_of(info.shape)) * bytes_of(info.type)});
  }
  return out;
}

/// Gives a part of a split its candidates; false if there is none.
bool schedule_part(SegmentPlan& segment, const DeviceLimits& limits, const PlanOptions& options) {
  std::vector<Rejection> rejections;
  if (!offer_schedules(segment, rejections, limits, options)) return false;
  // Partial results would need a kernel more.
  std::erase_if(segment.candidates, [](const ProposedSchedule& candidate) {
    return candidate.schedule.persistent_blocks != 0;
  });
  rank_schedules(segment.candidates, options.families);
  return !segment.candidates.empty();
}

/// The families that may walk the columns.
PlanOptions column_options(const PlanOptions& options) {
  PlanOptions finishing{.families = options.families};
  std::erase_if(finishing.families, [](const Family& family) { return family.leaves_partials; });
  return finishing;
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

/// The kernel each that rows and columns run in, where one pass over memory for both takes longer
/// or has no schedule. Records the choice where there was one. `joint` has no candidates if no
/// schedule takes both.
std::optional<SplitPlan> faster_split(const SegmentPlan& joint, const DeviceLimits& limits,
                                      const PlanOptions& options,
                                      std::vector<Decision>& decisions) {
  const bool pinned = !(options.pin == SchedulePin{});
  const bool shared_pass = !joint.candidates.empty();
  if ((pinned && shared_pass) || !may_split(joint.facts, limits, options)) return std::nullopt;
  std::optional<SplitPlan> split = split_segment(joint.facts);
  if (!split) return std::nullopt;

  Decision decision{.question = "do rows and columns share one pass over memory"};
  const auto add = [&](std::string what, double us, std::string because) {
    decision.candidates.push_back({.what = std::move(what),
                                   .predicted = {.total_us = us},
                                   .legal = true,
                                   .because = std::move(because)});
  };
  constexpr const char* kApart = "a kernel for the rows, then one for the columns";
  const double together_us = shared_pass ? joint.chosen().predicted.total_us : 0.0;
  if (shared_pass) add("one pass", together_us, "");
  const auto takes_longer = [&](double least_us, const std::string& because) {
    if (!shared_pass || least_us < together_us) return false;
    add(kApart, least_us, because);
    decision.chosen = "one pass";
    decision.because =
        fmt::format("predicted {:.1f} us in one pass; a kernel each: {} take {:.1f} us",
                    together_us, because, least_us);
    decisions.push_back(std::move(decision));
    return true;
  };
  const double columns_us = least_time(split->columns.facts, limits);
  if (takes_longer(least_time(split->rows.facts, limits) + columns_us,
                   "its launches and bytes alone"))
    return std::nullopt;
  // Pins are for the rows.
  if (!schedule_part(split->rows, limits, options)) return std::nullopt;
  if (takes_longer(split->rows.chosen().predicted.total_us + columns_us,
                   "the rows, with the launch and bytes of the columns,"))
    return std::nullopt;
  if (!schedule_part(split->columns, limits, column_options(options))) return std::nullopt;

  const double apart_us = split->predicted_us();
  add(kApart, apart_us, "");
  const bool together = shared_pass && together_us <= apart_us;
  decision.chosen = together ? "one pass" : "a kernel each";
  if (shared_pass) {
    decision.because = fmt::format("predicted {:.1f} us in one pass, {:.1f} us in a kernel each",
                                   together_us, apart_us);
  } else {
    decision.because = pinned ? "the pinned family takes no segment with both kinds of reductions"
                              : "no schedule keeps accumulators of all columns while it walks rows";
  }
  decisions.push_back(std::move(decision));
  if (together) return std::nullopt;
  return split;
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
  const Result<void> offered = offer_schedules(segment, out.rejections, limits, options);
  // A mistake in the options is not mended by other kernels.
  if (!offered && offered.error().kind == ErrorKind::kInvalidArgument) return fail(offered.error());

  std::optional<SplitPlan> split = faster_split(segment, limits, options, out.decisions);
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

std::span<const SegmentPlan> Plan::leading_segments() const {
  const auto last = std::ranges::find_if(segments, [](const SegmentPlan& segment) {
    return segment.chosen().predicted.second_stage_us > 0.0;
  });
  return {segments.begin(), last == segments.end() ? last : last + 1};
}

double Plan::predicted_us() const {
  double us = 0.0;
  for (const SegmentPlan& segment : leading_segments()) us += segment.chosen().predicted.total_us;
  return us;
}

namespace {

/// Both ways to finish what a schedule leaves, the last block's only where its family knows it.
Decision finish_decision(const SegmentFacts& facts, const Schedule& schedule,
                         const DeviceLimits& limits, const FamilySet& families) {
  Decision decision{.question = std::string(kWhatFinishes)};
  constexpr const char* kByKernel = "a second kernel";
  constexpr const char* kByTicket = "the last block, by ticket";
  const auto add = [&](const char* what, double us) {
    decision.candidates.push_back(
        {.what = what, .predicted = {.total_us = us}, .legal = true, .because = ""});
  };
  WorkEstimate work;
  add_finish(facts, schedule, limits, {}, work);
  const double kernel_us = second_kernel_time(work.partial_bytes, limits);
  add(kByKernel, kernel_us);
  const bool by_ticket = schedule.finish == Finish::kTicket;
  decision.chosen = by_ticket ? kByTicket : kByKernel;
  const Family* family = find_family(families, schedule.family);
  if (family == nullptr || !family->draws_tickets) {
    decision.because = "the family's blocks draw no tickets";
    return decision;
  }
  const double ticket_us = ticket_time(facts, schedule, limits);
  add(kByTicket, ticket_us);
  decision.because = fmt::format(
      "predicted {:.2f} us by a second kernel, {:.2f} us by the last block", kernel_us, ticket_us);
  return decision;
}

}  // namespace

Result<void> plan_finish(Plan& plan, const Schedule& schedule, const FamilySet& families) {
  constexpr std::string_view kQuestion = "which schedule finishes the partial results";
  if (!plan.segments.front().facts.has_outer()) return {};
  plan.segments.resize(1);
  plan.workspace.clear();
  std::erase_if(plan.decisions, [&](const Decision& decision) {
    return decision.question == kQuestion || decision.question == kWhatFinishes;
  });
  const SegmentFacts& facts = plan.segments.front().facts;
  if (schedule.persistent_blocks == 0) return {};

  const bool by_ticket = schedule.finish == Finish::kTicket;
  const int64_t rows = partial_rows(schedule);
  for (const OpId id : facts.outer_reductions) {
    const ValueId result = facts.fusion.ops[id].results.front();
    const int64_t elements = facts.is_total(id) ? 1 : facts.space.columns;
    plan.workspace.push_back({.value = result,
                              .bytes = rows * elements * bytes_of(facts.fusion.values[result].type),
                              .own = by_ticket});
  }
  if (by_ticket) {
    plan.workspace.push_back({.value = {}, .bytes = ticket_bytes(facts, schedule), .own = true});
    plan.decisions.push_back(finish_decision(facts, schedule, plan.limits, families));
    return {};
  }
  Subgraph finish = finish_of(facts, rows);
  if (finish.fusion.outputs.empty()) return {};  // They have no elements.
  plan.decisions.push_back(finish_decision(facts, schedule, plan.limits, families));
  auto finish_facts = analyse(std::move(finish.fusion));
  if (!finish_facts)
    return fail(unsupported(facts.fusion, {finish_facts.error()},
                            "the partial results cannot be finished"));
  SegmentPlan segment{
      .facts = std::move(*finish_facts), .in_plan = std::move(finish.in_plan), .candidates = {}};
  std::vector<Rejection> rejections;
  for (const Family& family : families) {
    if (family.leaves_partials && segment.facts.has_outer()) continue;
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
  rank_schedules(segment.candidates, families);
  Decision decision = schedule_decision(segment, rejections);
  decision.question = kQuestion;
  plan.decisions.push_back(std::move(decision));
  plan.segments.push_back(std::move(segment));
  return {};
}

TensorSlot slot_of(const Plan& plan, size_t segment, ValueId value, BufferUse use) {
  const std::map<ValueId, ValueId>& in_plan = plan.segments[segment].in_plan;
  const ValueId id = in_plan.empty() ? value : in_plan.at(value);
  // Partial results go by the name of what they are partial results of: a later segment that reads
  // them may write the finished ones as an output.
  for (size_t i = 0; i < plan.workspace.size(); ++i) {
    const WorkspaceTensor& tensor = plan.workspace[i];
    const bool in_segment =
        use == BufferUse::kRead ? segment > tensor.writer : segment == tensor.writer;
    // What a block writes of a value whose partial results it finishes itself is the output.
    const bool is_meant = use == BufferUse::kReadWrite || !tensor.own;
    if (tensor.value == id && is_meant && in_segment) return {TensorSlot::Kind::kWorkspace, i};
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
