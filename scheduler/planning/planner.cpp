#include "scheduler/planning/planner.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "fusion_ir/pipeline.h"
#include "fusion_ir/verifier.h"
#include "scheduler/analysis/contraction.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/families/interruption.h"
#include "scheduler/families/multi_tensor.h"
#include "scheduler/plan/plan_edit.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/plan/plan_verifier.h"
#include "scheduler/plan/tensor_slots.h"
#include "scheduler/plan/workspace.h"
#include "scheduler/planning/apply_tuned.h"
#include "scheduler/planning/follow_plan.h"
#include "scheduler/segmentation/contraction_ways.h"
#include "scheduler/segmentation/deferred_scales.h"
#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/joins.h"
#include "scheduler/segmentation/offers.h"
#include "scheduler/segmentation/segment_scheduler.h"
#include "scheduler/segmentation/segmented_plan.h"
#include "scheduler/segmentation/uneven_parts.h"

namespace sinter {
namespace {

/// The family that the pins name; empty: any.
std::string_view pinned_family(const SchedulePin& pin) {
  if (pin.schedule) return pin.schedule->family;
  return pin.family ? std::string_view(*pin.family) : std::string_view();
}

/// The graph as one segment, or as a list of tensors if the pins require it.
tl::expected<SegmentFacts, Rejection> analyse_segment(const Fusion& fusion,
                                                      const PlanOptions& options) {
  if (pinned_family(options.pin) == kMultiTensor) return analyse_list(fusion);
  auto facts = analyse(fusion);
  if (!facts) return facts;
  if (auto rejection = check_arguments(*facts)) return tl::make_unexpected(std::move(*rejection));
  return facts;
}

/// Plans one segment if its kernels run the whole graph, else as many as are needed.
Result<void> plan_kernels(Plan& plan, const PlanOptions& options) {
  const Fusion& fusion = plan.fusion;
  const bool is_cut = !options.cuts.empty() || !options.joins.empty();
  if (is_cut && !(options.pin == SchedulePin{}))
    return fail(
        {.kind = ErrorKind::kInvalidArgument,
         .message = fmt::format("a schedule is pinned for '{}', and how it is cut", fusion.name),
         .remedy = "pin one of both"});
  if (is_cut) return plan_segments(plan, options);
  const bool calls = std::ranges::any_of(
      fusion.ops, [](const Op& op) { return std::holds_alternative<ExternalOp>(op.kind); });
  if (calls && !(options.pin == SchedulePin{}))
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("a schedule is pinned for '{}', which has external calls",
                                        fusion.name),
                 .remedy = "pin schedules of graphs that one kernel runs"});
  const bool pinned = !(options.pin == SchedulePin{});
  if (!pinned) {
    ListGroups lists = choose_lists(fusion, plan.limits, options);
    if (!lists.groups.empty()) return plan_segments(plan, options, std::move(lists));
  }
  if (calls) return plan_segments(plan, options);
  // Analysing rows with that many stages as one kernel takes longer than cutting them.
  const bool reduces =
      std::ranges::any_of(fusion.ops, [](const Op& op) { return is_reduction(op.kind); });
  if (!pinned && reduces && options.cutting == Cutting::kFaster &&
      instructions_of(fusion) > kMostInstructions) {
    Plan cut = plan;
    if (plan_segments(cut, options)) {
      plan = std::move(cut);
      return {};
    }
  }
  auto facts = analyse_segment(fusion, options);
  if (!facts && pinned)
    return fail(unsupported(fusion, {facts.error()},
                            fmt::format("no family can walk the fusion '{}'", fusion.name)));
  if (!facts) return plan_segments(plan, options);
  const double least_us = least_time(*facts, plan.limits);
  const bool is_worth_trying =
      facts->has_reduction() || facts->has_outer() || fusion.ops.size() <= kMostPointwiseOpsCut;
  auto whole = schedule_segment(std::move(*facts), plan.limits, options);
  // Pins apply to the one kernel of a segment; other kernels cannot correct an error in the
  // options.
  if (!whole && (pinned || whole.error().kind == ErrorKind::kInvalidArgument))
    return fail(whole.error());
  if (!whole) return plan_segments(plan, options);
  const double whole_us = whole->predicted_us();
  const bool may_cut = is_worth_trying && !pinned && options.cutting == Cutting::kFaster;
  if (may_cut && whole_us > kWorthCutting * least_us + plan.limits.cost.launch_us) {
    Plan cut = plan;
    try {
      if (plan_segments(cut, options, {}, whole_us / (1.0 + kCutGain)) && cut.is_segmented) {
        plan = std::move(cut);
        return {};
      }
    } catch (const DeadlinePassed& passed) {
      // The kernel of the whole graph is a valid plan, even if perhaps not the fastest.
      whole->decisions.push_back({.question = "would several kernels be faster",
                                  .chosen = "one kernel",
                                  .because = passed.error().message});
    }
  }
  plan.kernels = std::move(whole->kernels);
  plan.workspace = std::move(whole->workspace);
  plan.decisions = std::move(whole->decisions);
  plan.rejections = std::move(whole->rejections);
  return {};
}

/// Decides which kernels of a plan start by dependent launch, now that their order is known: those
/// behind another kernel. What a call leaves on the stream is not known; it need not be a kernel.
/// Kernels that are the same as another one start as that one does.
void order_launches(Plan& plan, const FamilySet& families) {
  const auto first_alike = [&](KernelId id) { return plan.kernels[id].same_as.value_or(id); };
  std::optional<KernelId> before;
  std::set<KernelId> before_loads;  // Kernels in front of those that load before they wait.
  for (const PlanStep& step : plan.steps()) {
    const auto* id = std::get_if<KernelId>(&step);
    const std::optional<KernelId> previous =
        std::exchange(before, id == nullptr ? std::nullopt : std::optional(*id));
    if (id == nullptr) continue;
    KernelPlan& kernel = plan.kernels[first_alike(*id)];
    if (first_alike(*id) == *id) {
      if (previous) start_early(kernel, plan.limits, families);
      if (previous && plan.has_constant_columns(*id)) load_before_waiting(kernel);
      // Segments were compared as kernels behind others.
      for (ProposedSchedule& candidate : kernel.candidates) {
        if (!plan.is_segmented || waits(candidate.schedule.dependent_launch)) continue;
        const Family* family = find_family(families, candidate.schedule.family);
        candidate.predicted =
            family->predict(kernel.facts, candidate.schedule, candidate.estimate, plan.limits);
      }
    }
    const bool preloads = kernel.chosen().schedule.dependent_launch == DependentLaunch::kPreload;
    if (previous && preloads) before_loads.insert(first_alike(*previous));
  }
  for (const KernelId id : before_loads) let_next_start(plan.kernels[id], plan.limits, families);
  for (KernelPlan& kernel : plan.kernels) {
    if (kernel.same_as) kernel.candidates = {plan.kernels[*kernel.same_as].chosen()};
  }
}

/// Sets the graph to plan, and the placements that its layouts and concatenates imply.
void set_graph(Plan& plan, const Fusion& fusion) {
  plan.fusion = with_places_for_joins(fusion);
  plan.placements.clear();
  for (size_t i = 0; i < plan.fusion.layouts.size(); ++i) {
    const ValueId alias = plan.fusion.layouts[i].alias;
    if (alias.valid())
      plan.placements[plan.fusion.outputs[i]] = {alias, 0, input_strides(plan.fusion, {}, alias)};
  }
}

/// The graph with reductions of long axes in uneven parts, if no number of parts divides them; no
/// value if it has none.
std::optional<Fusion> in_uneven_parts(const Fusion& fusion, const DeviceLimits& limits,
                                      const PlanOptions& options) {
  const std::vector<UnevenAxis> axes = find_uneven_axes(fusion, limits);
  if (axes.empty()) return std::nullopt;
  const Fusion made = with_axes_in_parts(fusion, axes);
  return options.simplify ? simplify(made) : made;
}

/// The graph with scales of rows behind contractions, if the options allow it; no value if it has
/// none.
std::optional<Fusion> with_scales_behind(const Fusion& fusion, const PlanOptions& options) {
  if (!options.defer_scales && !options.like) return std::nullopt;
  std::optional<Fusion> made = with_deferred_scales(fusion);
  if (made && options.simplify) made = simplify(*made);
  return made;
}

/// A graph of the same results, and what decisions say of it and of the one it stands for.
struct OtherGraph {
  Fusion fusion;
  const char *question, *kept, *other, *candidate, *taken;
};

/// Bytes of all tensors between the kernels of a plan.
int64_t bytes_between(const Plan& plan) {
  int64_t bytes = 0;
  for (const WorkspaceTensor& tensor : plan.workspace) bytes += tensor.bytes;
  return bytes;
}

/// Also plans the other graph, and keeps the faster plan. Less than kCutGain counts only where less
/// passes through memory, too: the logits of a language model are as large as its weights.
/// `unplanned` is the plan before planning.
void try_graph(Plan& plan, Plan unplanned, const OtherGraph& graph, const PlanOptions& options) {
  set_graph(unplanned, graph.fusion);
  try {
    if (!plan_kernels(unplanned, options)) return;
    order_launches(unplanned, options.families);
  } catch (const DeadlinePassed& passed) {
    plan.decisions.push_back(
        {.question = graph.question, .chosen = graph.kept, .because = passed.error().message});
    return;
  }
  const double kept_us = plan.predicted_us();
  const double other_us = unplanned.predicted_us();
  const auto candidate = [](const char* what, double us) {
    return Candidate{.what = what, .predicted = {.total_us = us}, .legal = true, .because = ""};
  };
  const int64_t kept_bytes = bytes_between(plan);
  const int64_t other_bytes = bytes_between(unplanned);
  const bool is_faster =
      other_us < kept_us / (1.0 + kCutGain) || (other_us < kept_us && other_bytes < kept_bytes);
  if (is_faster) plan = std::move(unplanned);
  plan.decisions.push_back(
      {.question = graph.question,
       .candidates = {candidate(graph.kept, kept_us), candidate(graph.candidate, other_us)},
       .chosen = is_faster ? graph.taken : graph.kept,
       .because =
           fmt::format("predicted {:.1f} us {}, {:.1f} us {}; {} and {} bytes pass through "
                       "memory between kernels",
                       kept_us, graph.kept, other_us, graph.other, kept_bytes, other_bytes)});
}

Decision following_decision(const Fusion& fusion, const Plan& model) {
  std::string sizes;
  for (uint32_t i = 0; i < model.binding.symbol_sizes.size() && i < fusion.symbols.size(); ++i)
    sizes += fmt::format("{}{}={}", sizes.empty() ? "" : ", ", fusion.symbols[SymbolId{i}].name,
                         model.binding.symbol_sizes[i]);
  return {.question = "whose cuts and schedules are these",
          .chosen = sizes.empty() ? "those of a plan that is followed"
                                  : fmt::format("those of the plan for {}", sizes),
          .because = "the caller asked for a plan like it, whatever takes least time"};
}

/// Checks that no step reads an input after the step that begins to overwrite it.
void check_overwriting(const Plan& plan) {
  std::set<ValueId> overwritten;
  for (const OutputLayout& layout : plan.fusion.layouts) {
    if (layout.alias.valid()) overwritten.insert(layout.alias);
  }
  if (overwritten.empty()) return;
  std::set<ValueId> begun;
  for (const PlanStep& step : plan.steps()) {
    std::vector<ValueId> read;
    std::vector<ValueId> written;
    if (const auto* call = std::get_if<CallId>(&step)) {
      const Op& op = plan.fusion.ops[plan.externals[*call].op];
      read = op.operands;
      written = op.results;
    } else {
      const KernelPlan& kernel = plan.kernels[std::get<KernelId>(step)];
      const auto in_plan = [&](ValueId value) {
        return kernel.in_plan.empty() ? value : kernel.in_plan.at(value);
      };
      for (const ValueId input : kernel.facts.fusion.inputs) read.push_back(in_plan(input));
      for (const ValueId output : kernel.facts.fusion.outputs) written.push_back(in_plan(output));
    }
    for (const ValueId value : read)
      SINTER_CHECK(!begun.contains(value), "{} is read after it was overwritten", value);
    for (const ValueId value : written) {
      const ValueId tensor = tensor_of(plan, value);
      if (tensor != value && overwritten.contains(tensor)) begun.insert(tensor);
    }
  }
}

/// The kernel or call that writes a value last, which completes it.
PlanStep last_writer(const Plan& plan, ValueId value) {
  std::optional<PlanStep> out;
  for (const PlanStep& step : plan.steps()) {
    const auto writes = [&] {
      if (const auto* call = std::get_if<CallId>(&step)) {
        const Op& op = plan.fusion.ops[plan.externals[*call].op];
        return std::ranges::find(op.results, value) != op.results.end();
      }
      const KernelPlan& kernel = plan.kernels[std::get<KernelId>(step)];
      return std::ranges::any_of(kernel.facts.fusion.outputs, [&](ValueId output) {
        return (kernel.in_plan.empty() ? output : kernel.in_plan.at(output)) == value;
      });
    };
    if (writes()) out = step;
  }
  SINTER_CHECK(out.has_value(), "nothing writes {}", value);
  return *out;
}

/// Makes the indices that checks read tensors of the workspace.
void keep_indices(Plan& plan, std::vector<IndexCheck> checks) {
  plan.checks_indices = true;
  plan.index_checks = std::move(checks);
  int64_t bytes = 0;
  for (const ValueId kept : plan.kept_indices()) {
    SINTER_CHECK(!plan.placements.contains(kept), "{} lies in another tensor", kept);
    const Value& value = plan.fusion.values[kept];
    plan.workspace.push_back({.value = kept,
                              .bytes = element_count(value.shape) * bytes_of(value.type),
                              .writer = last_writer(plan, kept)});
    bytes += plan.workspace.back().bytes;
  }
  plan.decisions.push_back(
      {.question = "what becomes of an index outside of its axis",
       .chosen = "it counts as 0, and is kept to be checked",
       .because = fmt::format("the caller asked; {} take(s), {} bytes of workspace",
                              plan.index_checks.size(), bytes)});
}

Result<Plan> plan_or_throw(const Fusion& fusion, const ExtentValues& extents,
                           const DeviceLimits& limits, const PlanOptions& options) {
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

  CheckedFusion checked =
      options.check_indices ? with_kept_indices(fusion, *binding) : CheckedFusion{.fusion = fusion};
  Plan out{.fusion = options.like ? specialize_alike(checked.fusion, *binding)
                                  : specialize(checked.fusion, *binding),
           .binding = *binding,
           .limits = limits,
           .kernels = {},
           .workspace = {},
           .decisions = {},
           .rejections = {}};
  auto ways = choose_contraction_ways(std::move(out.fusion), limits, options);
  if (!ways) return fail(ways.error());
  out.fusion = std::move(ways->fusion);
  const bool is_free = options.pin == SchedulePin{} && options.cuts.empty() &&
                       options.joins.empty() && options.cutting == Cutting::kFaster;
  std::vector<OtherGraph> others;
  if (is_free) {
    if (auto in_parts = in_uneven_parts(out.fusion, limits, options)) {
      others.push_back({std::move(*in_parts),
                        "are axes that no number of parts divides reduced in parts", "without",
                        "in parts", "parts of one length, and a rest",
                        "in parts, of which the last is shorter"});
    }
    if (auto deferred = with_scales_behind(out.fusion, options)) {
      others.push_back({std::move(*deferred), "are rows scaled before or behind contractions",
                        "before", "behind", "behind", "behind"});
    }
  }
  set_graph(out, out.fusion);
  if (options.like && !others.empty() && !equal_but_for_sizes(out.fusion, options.like->fusion)) {
    const auto like = std::ranges::find_if(others, [&](const OtherGraph& other) {
      return equal_but_for_sizes(other.fusion, options.like->fusion);
    });
    set_graph(out, (like == others.end() ? others.begin() : like)->fusion);
  }
  std::optional<Plan> unplanned;
  if (!others.empty() && !options.like) unplanned = out;

  const auto planned =
      options.like ? follow_plan(out, *options.like, options) : plan_kernels(out, options);
  if (planned && !options.like) {
    order_launches(out, options.families);
    for (const OtherGraph& other : others) try_graph(out, *unplanned, other, options);
  }
  if (!planned) {
    Error error = planned.error();
    if (error.kind == ErrorKind::kUnsupported && !out.placements.empty()) {
      const auto& [output, placement] = *out.placements.begin();
      error.remedy +=
          fmt::format(", or give {} memory of its own instead of that of {}", output, placement.in);
    }
    return fail(std::move(error));
  }
  if (options.like) {
    out.decisions.push_back(following_decision(fusion, *options.like));
  } else if (options.tuned) {
    if (auto applied = apply_tuned(out, *options.tuned, options); !applied)
      return fail(applied.error());
  }
  check_overwriting(out);
  std::ranges::move(ways->decisions, std::back_inserter(out.decisions));
  // Contractions that were expanded have a decision already.
  if (!ways->expands) {
    for (const Contraction& contraction : contractions_of(out))
      out.decisions.push_back(decision_of(contraction, out.fusion));
  }
  if (options.check_indices) keep_indices(out, std::move(checked.checks));
  place_workspace(out);
  check_plan(out);
  return out;
}

}  // namespace

Result<Plan> plan(const Fusion& fusion, const ExtentValues& extents, const DeviceLimits& limits,
                  const PlanOptions& options) {
  return as_result([&] { return plan_or_throw(fusion, extents, limits, options); });
}

namespace {

/// Names the kernel that writes the values that a kernel stores, of those in the workspace. Values
/// that depend on partial results have another writer once the kernel that finishes them is added
/// or removed.
void set_writer(Plan& plan, KernelId writer) {
  const KernelPlan& kernel = plan.kernels[writer];
  for (const ValueId output : kernel.facts.fusion.outputs) {
    const ValueId value = kernel.in_plan.empty() ? output : kernel.in_plan.at(output);
    for (WorkspaceTensor& tensor : plan.workspace) {
      if (tensor.holds == WorkspaceTensor::Holds::kValue && tensor.value == value)
        tensor.writer = writer;
    }
  }
}

/// Adds, replaces or removes the kernel that finishes the partial results of a kernel.
void set_finish(Plan& plan, KernelId segment, std::optional<KernelPlan> finish) {
  // The invalid id stands for no kernel.
  KernelId finishing = plan.finish_of(segment).value_or(KernelId{});
  if (finishing.valid() && finish) {
    plan.kernels[finishing] = std::move(*finish);
  } else if (finish) {
    finishing = insert_kernel_after(plan, segment, std::move(*finish));
  } else if (finishing.valid()) {
    remove_kernel(plan, finishing);
    finishing = {};
  }
  set_writer(plan, segment);
  if (finishing.valid()) set_writer(plan, finishing);
}

Result<void> finish_or_throw(Plan& plan, KernelId segment, const Schedule& schedule,
                             const FamilySet& families) {
  SINTER_CHECK(plan.kernels.contains(segment), "the plan has no {}", segment);
  if (plan.kernels[segment].is_part) return {};
  // Partial results, or what a library call takes: no other schedule needs any.
  const bool has_scratch = std::ranges::any_of(plan.workspace, [&](const WorkspaceTensor& tensor) {
    return tensor.writer == PlanStep(segment) && tensor.own();
  });
  if (!plan.kernels[segment].facts.has_outer() && !has_scratch &&
      !is_library_call(families, schedule.family))
    return {};
  auto finish = finish_segment(plan.kernels[segment].facts, schedule, plan.limits, families);
  if (!finish) return fail(finish.error());
  std::erase_if(plan.workspace, [&](const WorkspaceTensor& tensor) {
    return tensor.writer == PlanStep(segment) && tensor.holds != WorkspaceTensor::Holds::kValue;
  });
  const std::map<ValueId, ValueId> in_plan = plan.kernels[segment].in_plan;
  const auto plan_value = [&](ValueId value) {
    return in_plan.empty() || !value.valid() ? value : in_plan.at(value);
  };
  if (finish->kernel) {
    for (auto& [mine, value] : finish->kernel->in_plan) value = plan_value(value);
  }
  set_finish(plan, segment, std::move(finish->kernel));
  for (WorkspaceTensor tensor : finish->workspace) {
    tensor.value = plan_value(tensor.value);
    tensor.writer = segment;
    plan.workspace.push_back(tensor);
  }
  std::vector<Decision>& decisions =
      plan.is_segmented ? plan.kernels[segment].decisions : plan.decisions;
  std::erase_if(decisions, is_finish_decision);
  std::ranges::move(finish->decisions, std::back_inserter(decisions));
  place_workspace(plan);
  return {};
}

}  // namespace

Result<void> plan_finish(Plan& plan, KernelId segment, const Schedule& schedule,
                         const FamilySet& families) {
  return as_result([&] { return finish_or_throw(plan, segment, schedule, families); });
}

}  // namespace sinter
