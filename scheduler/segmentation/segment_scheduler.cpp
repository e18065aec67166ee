#include "scheduler/segmentation/segment_scheduler.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "scheduler/analysis/subgraphs.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/cost/last_block_time.h"
#include "scheduler/families/library_matmul.h"
#include "scheduler/families/matmul.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/schedule/accumulators.h"
#include "scheduler/schedule/last_block.h"
#include "scheduler/schedule/row_schedule.h"
#include "scheduler/segmentation/offers.h"
#include "scheduler/segmentation/row_parts.h"

namespace sinter {
namespace {

/// The first kernel of a segment: what lies between two kernels is written by it.
constexpr KernelId kFirst{0};

/// A segment with one kernel for its rows and one for its columns, and the tensors between them.
struct SplitPlan {
  KernelPlan rows;
  KernelPlan columns;
  std::vector<WorkspaceTensor> workspace;
  [[nodiscard]] double predicted_us() const {
    return rows.chosen().predicted.total_us + columns.chosen().predicted.total_us;
  }
};

/// The two kernels without candidates. No value if the segment does not have both kinds of
/// reductions, or a part cannot be walked.
std::optional<SplitPlan> split_segment(const SegmentFacts& facts) {
  if (!facts.has_outer() || !facts.has_reduction()) return std::nullopt;
  // The columns would read elements that the rows have overwritten.
  if (!facts.in_place.empty()) return std::nullopt;
  RowsAndColumns parts = split_rows_and_columns(facts);
  const auto analysed = [](Subgraph part) -> std::optional<KernelPlan> {
    if (part.fusion.outputs.empty()) return std::nullopt;
    auto part_facts = analyse(std::move(part.fusion));
    if (!part_facts) return std::nullopt;
    return KernelPlan{
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
        {.value = value,
         .bytes = element_count(binding.sizes_of(info.shape)) * bytes_of(info.type),
         .writer = kFirst});
  }
  return out;
}

/// Sets the candidates of a part of a split; false if there are none.
bool schedule_part(KernelPlan& kernel, const DeviceLimits& limits, const PlanOptions& options) {
  std::vector<Rejection> rejections;
  if (!offer_schedules(kernel, rejections, limits, options)) return false;
  std::erase_if(kernel.candidates, [&](const ProposedSchedule& candidate) {
    // The tensors of a part are those that the other one reads.
    return leaves_partials(kernel.facts, candidate.schedule) ||
           is_library_call(options.families, candidate.schedule.family);
  });
  rank_schedules(kernel.candidates, options.families);
  return !kernel.candidates.empty();
}

/// Options with the families that may run the columns.
PlanOptions column_options(const PlanOptions& options) {
  PlanOptions finishing{.families = options.families};
  std::erase_if(finishing.families, [](const Family& family) { return family.writes_partials; });
  return finishing;
}

/// The family that the pins name.
std::optional<std::string> pinned_family(const SchedulePin& pin) {
  return pin.schedule ? std::optional(pin.schedule->family) : pin.family;
}

/// A pin applies to the one kernel of a segment. Two kernels, of which the one for the rows is
/// pinned, satisfy it only if it names a family that has no schedule for a segment of both kinds of
/// reductions.
bool may_split(const SegmentFacts& facts, const DeviceLimits& limits, const PlanOptions& options) {
  if (options.pin == SchedulePin{}) return true;
  const auto name = pinned_family(options.pin);
  const Family* family = name ? find_family(options.families, *name) : nullptr;
  return family != nullptr && family->propose(facts, limits).candidates.empty();
}

/// A kernel each for rows and columns, if one pass over memory for both takes longer or has no
/// schedule. Records the choice if there was one. `joint` has no candidates if no schedule runs
/// both.
std::optional<SplitPlan> faster_split(const KernelPlan& joint, const DeviceLimits& limits,
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
  // Pins apply to the rows.
  if (!schedule_part(split->rows, limits, options)) return std::nullopt;
  if (takes_longer(split->rows.chosen().predicted.total_us + columns_us,
                   "the rows, with the launch and bytes of the columns,"))
    return std::nullopt;
  // That the columns start while the rows end is not counted: where it would decide, one pass was
  // the faster one in three of four kernels (docs/experiments/dependent_launch.md).
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

/// Rows in `parts` parts, and the kernel that combines them, without candidates. No value if they
/// cannot be split like that.
std::optional<SplitPlan> split_rows(const SegmentFacts& facts, int64_t parts) {
  std::optional<RowParts> split = rows_in_parts(facts, parts);
  if (!split) return std::nullopt;
  auto first = analyse(std::move(split->parts.fusion));
  auto second = analyse(std::move(split->finish.fusion));
  if (!first || !second) return std::nullopt;
  SplitPlan out{.rows = {.facts = std::move(*first),
                         .in_plan = std::move(split->parts.in_plan),
                         .candidates = {},
                         .row_parts = parts},
                .columns = {.facts = std::move(*second),
                            .in_plan = std::move(split->finish.in_plan),
                            .candidates = {},
                            .row_parts = parts},
                .workspace = {}};
  for (const RowParts::Passed& passed : split->passed)
    out.workspace.push_back({.value = passed.value,
                             .bytes = passed.bytes,
                             .writer = kFirst,
                             .holds = WorkspaceTensor::Holds::kPartials});
  return out;
}

/// Long rows in parts, with a kernel for the parts and one that combines their results, if that is
/// predicted to be faster than one kernel or has the only schedule. Records the choice if there was
/// one. A pin applies to one kernel.
std::optional<SplitPlan> faster_parts(const KernelPlan& whole, const DeviceLimits& limits,
                                      const PlanOptions& options,
                                      std::vector<Decision>& decisions) {
  if (!(options.pin == SchedulePin{}) || !whole.facts.in_place.empty()) return std::nullopt;
  const bool has_whole = !whole.candidates.empty();
  const double whole_us =
      has_whole ? whole.chosen().predicted.total_us : std::numeric_limits<double>::infinity();
  // Both kernels have a launch, and the first reads everything.
  if (least_time(whole.facts, limits) + limits.cost.launch_us >= whole_us) return std::nullopt;
  Decision decision{.question = "are rows reduced in parts"};
  const auto add = [&](std::string what, double us) {
    decision.candidates.push_back(
        {.what = std::move(what), .predicted = {.total_us = us}, .legal = true, .because = ""});
  };
  if (has_whole) add("whole rows", whole_us);
  // Their kernel lets the next one start early, which teams do not.
  PlanOptions of_rows = options;
  of_rows.teams = false;
  std::optional<SplitPlan> best;
  for (const int64_t parts : part_counts(whole.facts, limits)) {
    std::optional<SplitPlan> plan = split_rows(whole.facts, parts);
    if (!plan || !schedule_part(plan->rows, limits, of_rows) ||
        !schedule_part(plan->columns, limits, options))
      continue;
    if (limits.has_dependent_launch) {
      for (ProposedSchedule& candidate : plan->rows.candidates)
        candidate.schedule.dependent_launch = DependentLaunch::kTrigger;
    }
    start_early(plan->columns, limits, options.families);
    rank_schedules(plan->columns.candidates, options.families);
    add(fmt::format("{} parts a row, then a kernel that combines them", parts),
        plan->predicted_us());
    if (!best || plan->predicted_us() < best->predicted_us()) best = std::move(plan);
  }
  if (!best) return std::nullopt;
  const bool in_parts = best->predicted_us() < whole_us;
  decision.chosen = in_parts ? "in parts" : "whole rows";
  decision.because = has_whole ? fmt::format("predicted {:.1f} us whole, {:.1f} us in parts",
                                             whole_us, best->predicted_us())
                               : "no schedule takes whole rows";
  decisions.push_back(std::move(decision));
  if (!in_parts) return std::nullopt;
  return best;
}

/// Compares both ways to finish the partial results of a schedule; the last block's only if its
/// family implements it.
Decision finish_decision(const SegmentFacts& facts, const Schedule& schedule,
                         const DeviceLimits& limits, const FamilySet& families) {
  Decision decision{.question = std::string(kWhatFinishes)};
  constexpr const char* kByKernel = "a second kernel";
  constexpr const char* kByLastBlock = "the last block";
  const auto add = [&](const char* what, double us) {
    decision.candidates.push_back(
        {.what = what, .predicted = {.total_us = us}, .legal = true, .because = ""});
  };
  WorkEstimate work;
  add_finish(facts, schedule, limits, work);
  const double kernel_us = second_kernel_time(work.partial_bytes, limits);
  add(kByKernel, kernel_us);
  const bool by_last_block = schedule.finish == Finish::kLastBlock;
  decision.chosen = by_last_block ? kByLastBlock : kByKernel;
  const Family* family = find_family(families, schedule.family);
  if (family == nullptr || !family->can_finish_by_last_block) {
    decision.because = "the family cannot finish by its last block";
    return decision;
  }
  const double last_block_us = last_block_time(facts, schedule, limits);
  add(kByLastBlock, last_block_us);
  decision.because =
      fmt::format("predicted {:.2f} us by a second kernel, {:.2f} us by the last block", kernel_us,
                  last_block_us);
  return decision;
}

void add_parts(SplitPlan split, ScheduledSegment& out) {
  for (KernelPlan* part : {&split.rows, &split.columns}) {
    part->is_part = true;
    out.decisions.push_back(persistence_decision(part->facts));
    out.decisions.push_back(schedule_decision(*part, out.rejections));
    out.kernels.push_back(std::move(*part));
  }
  out.workspace = std::move(split.workspace);
}

/// Adds the finish of the only kernel of a segment.
void add_finish(FinishPlan finish, ScheduledSegment& out) {
  if (finish.kernel) out.kernels.push_back(std::move(*finish.kernel));
  std::ranges::move(finish.decisions, std::back_inserter(out.decisions));
  out.workspace = std::move(finish.workspace);
}

constexpr std::string_view kWhichFinishes = "which schedule finishes the partial results";

}  // namespace

double ScheduledSegment::predicted_us() const {
  double us = 0.0;
  for (const KernelPlan& kernel : kernels)
    us += kernel.finishes ? 0.0 : kernel.chosen().predicted.total_us;
  return us;
}

Result<ScheduledSegment> schedule_segment(SegmentFacts facts, const DeviceLimits& limits,
                                          const PlanOptions& options, FinishKernels* finishes) {
  ScheduledSegment out;
  KernelPlan kernel{.facts = std::move(facts), .in_plan = {}, .candidates = {}};
  const Result<void> offered = offer_schedules(kernel, out.rejections, limits, options);
  // Other kernels cannot correct an error in the options.
  if (!offered && offered.error().kind == ErrorKind::kInvalidArgument) return fail(offered.error());

  std::optional<SplitPlan> split = faster_split(kernel, limits, options, out.decisions);
  if (!split) split = faster_parts(kernel, limits, options, out.decisions);
  if (!split && !offered) return fail(offered.error());
  if (split) {
    start_early(split->columns, limits, options.families);
    add_parts(std::move(*split), out);
    return out;
  }
  out.decisions.push_back(persistence_decision(kernel.facts));
  out.decisions.push_back(schedule_decision(kernel, out.rejections));
  auto finish =
      finish_segment(kernel.facts, kernel.chosen().schedule, limits, options.families, finishes);
  if (!finish) return fail(finish.error());
  out.kernels.push_back(std::move(kernel));
  add_finish(std::move(*finish), out);
  return out;
}

Result<ScheduledSegment> schedule_like(SegmentFacts facts, std::span<const KernelPlan> model,
                                       const DeviceLimits& limits, const FamilySet& families) {
  ScheduledSegment out;
  const auto schedule = [&](KernelPlan& kernel, const KernelPlan& like) {
    return offer_schedules(kernel, out.rejections, limits,
                           {.families = families, .pin = {.schedule = like.chosen().schedule}});
  };
  const KernelPlan& first = model.front();
  if (first.is_part) {
    std::optional<SplitPlan> split =
        first.row_parts > 0 ? split_rows(facts, first.row_parts) : split_segment(facts);
    if (!split)
      return fail(unsupported(facts.fusion, {},
                              first.row_parts > 0
                                  ? fmt::format("rows do not split into {} parts", first.row_parts)
                                  : "rows and columns do not get a kernel each"));
    if (auto scheduled = schedule(split->rows, first); !scheduled) return fail(scheduled.error());
    if (auto scheduled = schedule(split->columns, model[1]); !scheduled)
      return fail(scheduled.error());
    add_parts(std::move(*split), out);
    return out;
  }
  KernelPlan segment{.facts = std::move(facts), .in_plan = {}, .candidates = {}};
  if (auto scheduled = schedule(segment, first); !scheduled) return fail(scheduled.error());
  out.decisions.push_back(persistence_decision(segment.facts));
  out.decisions.push_back(schedule_decision(segment, out.rejections));
  auto finish = finish_segment(segment.facts, segment.chosen().schedule, limits, families);
  if (!finish) return fail(finish.error());
  if (finish->kernel.has_value() != (model.size() > 1))
    return fail(unsupported(segment.facts.fusion, {}, "partial results are finished otherwise"));
  // The tiles of a contraction leave more partial results of more rows, for which other schedules
  // may be offered.
  if (finish->kernel) {
    finish->kernel->candidates.clear();
    if (auto scheduled = schedule(*finish->kernel, model[1]); !scheduled)
      return fail(scheduled.error());
  }
  out.kernels.push_back(std::move(segment));
  add_finish(std::move(*finish), out);
  return out;
}

bool is_finish_decision(const Decision& decision) {
  return decision.question == kWhichFinishes || decision.question == kWhatFinishes;
}

const FinishKernels::Entry* FinishKernels::find(const Fusion& graph, bool starts_early) const {
  for (auto [it, last] = known_.equal_range(structural_hash(graph)); it != last; ++it) {
    const Entry& entry = it->second;
    if (entry.starts_early == starts_early && structurally_equal(entry.kernel.facts.fusion, graph))
      return &entry;
  }
  return nullptr;
}

void FinishKernels::add(const KernelPlan& kernel, bool starts_early, const Decision& decision) {
  const auto best =
      std::span(kernel.candidates).first(std::min(most_candidates_, kernel.candidates.size()));
  known_.emplace(structural_hash(kernel.facts.fusion),
                 Entry{.kernel = {.facts = kernel.facts,
                                  .in_plan = {},
                                  .candidates = {best.begin(), best.end()},
                                  .finishes = true},
                       .starts_early = starts_early,
                       .decision = decision});
}

Result<FinishPlan> finish_segment(const SegmentFacts& facts, const Schedule& schedule,
                                  const DeviceLimits& limits, const FamilySet& families,
                                  FinishKernels* finishes) {
  FinishPlan out;
  if (is_library_call(families, schedule.family)) {
    const LibraryMatmul call = find_family(families, schedule.family)->call(facts, schedule);
    out.workspace.push_back({.value = {},
                             .bytes = call.workspace_bytes,
                             .writer = kFirst,
                             .holds = WorkspaceTensor::Holds::kScratch});
    return out;
  }
  if (const int64_t bytes = message_bytes(facts, schedule); bytes > 0) {
    out.workspace.push_back({.value = {},
                             .bytes = bytes,
                             .writer = kFirst,
                             .holds = WorkspaceTensor::Holds::kMessages});
  }
  if (!facts.has_outer() || !leaves_partials(facts, schedule)) return out;
  const bool by_last_block = schedule.finish == Finish::kLastBlock;
  const int64_t rows = partial_rows(facts, schedule);
  for (const OpId id : facts.outer_reductions) {
    const ValueId result = facts.fusion.ops[id].results.front();
    const int64_t elements = facts.is_total(id) ? 1 : facts.space.columns;
    out.workspace.push_back({.value = result,
                             .bytes = rows * elements * bytes_of(facts.fusion.values[result].type),
                             .writer = kFirst,
                             .holds = by_last_block ? WorkspaceTensor::Holds::kOwnPartials
                                                    : WorkspaceTensor::Holds::kPartials});
  }
  if (by_last_block) {
    out.workspace.push_back({.value = {},
                             .bytes = last_block_bytes(facts, schedule),
                             .writer = kFirst,
                             .holds = WorkspaceTensor::Holds::kCounters});
    out.decisions.push_back(finish_decision(facts, schedule, limits, families));
    return out;
  }
  Subgraph finish = finish_of(facts, rows);
  if (finish.fusion.outputs.empty()) return out;  // The outputs have no elements.
  out.decisions.push_back(finish_decision(facts, schedule, limits, families));
  const bool starts_early = schedule.dependent_launch == DependentLaunch::kTrigger;
  if (finishes != nullptr) {
    if (const auto* known = finishes->find(finish.fusion, starts_early)) {
      out.kernel = known->kernel;
      out.kernel->facts.fusion = std::move(finish.fusion);
      out.kernel->in_plan = std::move(finish.in_plan);
      out.decisions.push_back(known->decision);
      return out;
    }
  }
  auto finish_facts = analyse(std::move(finish.fusion));
  if (!finish_facts)
    return fail(unsupported(facts.fusion, {finish_facts.error()},
                            "the partial results cannot be finished"));
  KernelPlan kernel{
      .facts = std::move(*finish_facts), .in_plan = {}, .candidates = {}, .finishes = true};
  std::vector<Rejection> rejections;
  for (const Family& family : families) {
    if (family.writes_partials && kernel.facts.has_outer()) continue;
    if (!is_for(family, kernel.facts)) continue;
    Proposal proposal = family.propose(kernel.facts, limits);
    // The kernel that finishes must not leave partial results itself.
    for (ProposedSchedule& candidate : proposal.candidates) {
      if (candidate.schedule.persistent_blocks != 0) continue;
      kernel.candidates.push_back(std::move(candidate));
    }
    for (Rejection& rejection : proposal.rejections) rejections.push_back(std::move(rejection));
  }
  if (kernel.candidates.empty()) {
    return fail(unsupported(kernel.facts.fusion, rejections,
                            "no schedule family finishes the partial results"));
  }
  if (starts_early) start_early(kernel, limits, families);
  rank_schedules(kernel.candidates, families);
  Decision decision = schedule_decision(kernel, rejections);
  decision.question = kWhichFinishes;
  if (finishes != nullptr) finishes->add(kernel, starts_early, decision);
  out.decisions.push_back(std::move(decision));
  out.kernel = std::move(kernel);
  out.kernel->in_plan = std::move(finish.in_plan);
  return out;
}

}  // namespace sinter
