#include "scheduler/planning/follow_plan.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <span>

#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/list_groups.h"
#include "scheduler/segmentation/offers.h"
#include "scheduler/segmentation/output_copies.h"
#include "scheduler/segmentation/place_segments.h"
#include "scheduler/segmentation/segment_scheduler.h"

namespace sinter {
namespace {

constexpr const char* kRemedy = "plan these sizes on their own";

Error differs(std::string what) {
  return {.kind = ErrorKind::kUnsupported,
          .message = fmt::format("the plan to follow does not fit: {}", what),
          .remedy = kRemedy};
}

/// An error of one of the model's segments, which begins at `kernel`.
Error of_segment(KernelId kernel, Error error) {
  error.message = fmt::format("the plan to follow does not fit: its segment {}: {}", kernel.index,
                              error.message);
  error.remedy = kRemedy;
  return error;
}

class Follower {
 public:
  Follower(Plan& plan, const Plan& model, const PlanOptions& options)
      : plan_(plan), model_(model), options_(options) {}

  Result<void> run() {
    if (!copy_outputs() || !equal_but_for_sizes(plan_.fusion, model_.fusion))
      return fail(differs("the simplified graphs differ in more than sizes"));
    return model_.is_segmented ? follow_segments() : follow_whole();
  }

 private:
  /// Appends the copies of outputs that the model has in its graph; false if they copy no outputs
  /// here.
  bool copy_outputs() {
    const size_t ops = plan_.fusion.ops.size();
    if (model_.fusion.ops.size() < ops) return false;
    const auto copied = copied_outputs(model_, ops);
    if (!copied) return false;
    for (const ValueId output : *copied) {
      if (!plan_.placements.contains(output)) return false;
      copy_output(plan_, output);
    }
    return true;
  }

  /// Kernels of the model's segment that begins at `first`.
  [[nodiscard]] std::span<const KernelPlan> kernels_from(KernelId first) const {
    const KernelId next = kernel_after(first);
    const bool is_twin = model_.kernels[first].is_part && model_.kernels.contains(next) &&
                         model_.kernels[next].is_part;
    const size_t count = is_twin || model_.finish_of(first) ? 2 : 1;
    return std::span(model_.kernels.begin(), model_.kernels.end()).subspan(first.index, count);
  }

  Result<void> follow_whole() {
    auto facts = analyse(plan_.fusion);
    if (!facts) return fail(unsupported(plan_.fusion, {facts.error()}, "nothing walks it here"));
    auto scheduled =
        schedule_like(std::move(*facts), kernels_from({0}), plan_.limits, options_.families);
    if (!scheduled) return fail(of_segment({0}, scheduled.error()));
    plan_.kernels = std::move(scheduled->kernels);
    plan_.workspace = std::move(scheduled->workspace);
    plan_.decisions = std::move(scheduled->decisions);
    plan_.rejections = std::move(scheduled->rejections);
    return {};
  }

  Result<void> follow_segments() {
    auto lists = follow_lists();
    if (!lists) return fail(lists.error());
    const WorkGraph graph(plan_.fusion, {model_.free_ops.begin(), model_.free_ops.end()},
                          lists->groups.empty() ? plan_.fusion.outputs : lists->rest);
    auto groups = follow_groups(graph);
    if (!groups) return fail(groups.error());
    if (lists_wait(plan_, graph, *groups, *lists))
      return fail(differs("its lists of tensors wait"));
    auto placed = place_segments(plan_, graph, *groups, std::move(*lists));
    if (!placed) return fail(placed.error());
    if (plan_.kernels.size() != model_.kernels.size())
      return fail(differs("its kernels run in another order"));
    plan_.cuts = model_.cuts;
    for (Cut& cut : plan_.cuts) cut.bytes = graph.bytes(cut.value);
    return {};
  }

  /// The lists of tensors, which are found again, with the model's schedules.
  Result<ListGroups> follow_lists() {
    std::vector<KernelId> model_lists;
    for (const KernelId id : model_.kernels.ids()) {
      if (model_.kernels[id].facts.list) model_lists.push_back(id);
    }
    if (model_lists.empty()) return ListGroups{};
    ListGroups lists = choose_lists(plan_.fusion, plan_.limits, options_);
    if (lists.groups.size() != model_lists.size())
      return fail(differs("its lists of tensors are others"));
    for (size_t i = 0; i < lists.groups.size(); ++i) {
      ScheduledSegment& made = lists.groups[i].segment;
      auto scheduled = schedule_like(made.kernels.front().facts, kernels_from(model_lists[i]),
                                     plan_.limits, options_.families);
      if (!scheduled) return fail(of_segment(model_lists[i], scheduled.error()));
      std::ranges::move(scheduled->decisions, std::back_inserter(made.decisions));
      made.kernels.front().candidates = std::move(scheduled->kernels.front().candidates);
      made.kernels.front().is_required = true;
    }
    return lists;
  }

  /// The model's groups and calls in a graph of these sizes.
  Result<std::vector<ChosenGroup>> follow_groups(const WorkGraph& graph) {
    GroupJudge judge(graph, plan_.limits, options_.families);
    std::vector<ChosenGroup> out;
    size_t owned = 0;
    const auto add = [&](const std::vector<OpId>& ops) {
      ChosenGroup group;
      for (const OpId op : ops) group.nodes.push_back(graph.node_of(op));
      std::ranges::sort(group.nodes);
      owned += group.nodes.size();
      // Nodes without an owner here come last.
      const bool all = group.nodes.back() != WorkGraph::kNone;
      out.push_back(std::move(group));
      return all;
    };
    for (const ExternalCall& call : model_.externals) {
      if (!add({call.op})) return fail(differs("a call of it is not needed"));
    }
    for (const KernelId id : model_.kernels.ids()) {
      if (model_.kernels[id].ops.empty()) continue;
      if (!add(model_.kernels[id].ops))
        return fail(differs("an op that a kernel of it was cut out for has no owner"));
      ChosenGroup& group = out.back();
      const GroupVerdict& verdict = judge.judge(group.nodes);
      if (!verdict.legal)
        return fail(of_segment(
            id, unsupported(graph.extract(group.nodes).fusion, {verdict.rejection},
                            fmt::format("no kernel runs it: {}", verdict.rejection.rule))));
      group.views = verdict.views;
      auto scheduled = follow_group(graph, group, id);
      if (!scheduled) return fail(scheduled.error());
      group.scheduled = *scheduled;
    }
    if (owned != graph.size()) return fail(differs("an op has an owner that has none in it"));
    return out;
  }

  /// The group's kernels. If the model reuses those of an earlier group, so does this plan.
  Result<ScheduledGroup*> follow_group(const WorkGraph& graph, const ChosenGroup& group,
                                       KernelId first) {
    Fusion fusion = graph.extract(group.nodes, group.views).fusion;
    const std::optional<KernelId> same_as = model_.kernels[first].same_as;
    if (same_as) {
      if (const auto made = made_.find(*same_as);
          made != made_.end() && structurally_equal(made->second.fusion, fusion))
        return &made->second.group;
    }
    auto facts = analyse(fusion);
    if (!facts)
      return fail(of_segment(first, unsupported(fusion, {facts.error()}, "nothing walks it here")));
    auto scheduled =
        schedule_like(std::move(*facts), kernels_from(first), plan_.limits, options_.families);
    if (!scheduled) return fail(of_segment(first, scheduled.error()));
    std::vector<ValueId> outputs = fusion.outputs;
    const auto made = made_.insert_or_assign(
        first, Made{.fusion = std::move(fusion),
                    .group = {.outputs = std::move(outputs), .segment = std::move(scheduled)}});
    return &made.first->second.group;
  }

  Plan& plan_;
  const Plan& model_;
  const PlanOptions& options_;
  struct Made {
    Fusion fusion;
    ScheduledGroup group;
  };
  std::map<KernelId, Made> made_;  ///< By the first equal kernel of the model.
};

}  // namespace

Result<void> follow_plan(Plan& plan, const Plan& model, const PlanOptions& options) {
  const auto refuse = [](std::string message, std::string remedy) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = std::move(message),
                 .remedy = std::move(remedy)});
  };
  if (options.pin != SchedulePin{} || !options.cuts.empty() || !options.joins.empty())
    return refuse("a plan is to be followed, and schedules, cuts or joins are pinned",
                  "pin them in the plan that is followed");
  if (model.limits.name == plan.limits.name && model.limits.cost != plan.limits.cost)
    return refuse("the plan to follow was made with other constants of the cost model",
                  "follow a plan made with the same constants");
  if (model.limits != plan.limits)
    return refuse(fmt::format("the plan to follow was made for {}, not for {}", model.limits.name,
                              plan.limits.name),
                  "follow a plan for the same device and limits");
  const auto has_team = [](const KernelPlan& kernel) {
    return kernel.chosen().schedule.exchange() == ExchangeKind::kMessages;
  };
  if (!options.teams && std::ranges::any_of(model.kernels, has_team))
    return refuse("the plan to follow has blocks that wait for each other (exchange messages)",
                  "follow a plan that was made with teams = false");
  return Follower(plan, model, options).run();
}

}  // namespace sinter
