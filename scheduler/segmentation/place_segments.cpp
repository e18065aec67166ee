#include "scheduler/segmentation/place_segments.h"
#include "scheduler/plan/plan_edit.h"
#include "scheduler/plan/tensor_slots.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

namespace sinter {
namespace {

/// Groups, each after all that it reads from.
std::vector<size_t> running_order(const WorkGraph& graph, std::span<const ChosenGroup> groups) {
  std::vector<size_t> group_of(graph.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    for (const NodeId node : groups[group].nodes) group_of[node] = group;
  }
  std::vector<std::vector<size_t>> next(groups.size());
  std::vector<size_t> waits(groups.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    std::vector<size_t> before;
    for (const NodeId node : groups[group].nodes) {
      for (const NodeId producer : graph.nodes()[node].producers) {
        if (group_of[producer] != group) before.push_back(group_of[producer]);
      }
    }
    std::ranges::sort(before);
    before.erase(std::ranges::unique(before).begin(), before.end());
    waits[group] = before.size();
    for (const size_t earlier : before) next[earlier].push_back(group);
  }
  using Ready = std::pair<NodeId, size_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (size_t group = 0; group < groups.size(); ++group) {
    if (waits[group] == 0) ready.emplace(groups[group].nodes.back(), group);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t group = ready.top().second;
    ready.pop();
    order.push_back(group);
    for (const size_t later : next[group]) {
      if (--waits[later] == 0) ready.emplace(groups[later].nodes.back(), later);
    }
  }
  SINTER_CHECK_OP(order.size(), ==, groups.size());
  return order;
}

/// Groups, in the order they run, that overwrite a tensor that a list reads, and all groups that
/// depend on them.
std::set<size_t> overwriting_lists(const Plan& plan, const WorkGraph& graph,
                                   std::span<const ChosenGroup> groups, const ListGroups& lists,
                                   const std::vector<size_t>& order) {
  std::set<ValueId> read;
  for (const ListGroup& list : lists.groups) {
    for (const ValueId input : list.subgraph.fusion.inputs)
      read.insert(list.subgraph.in_plan.at(input));
  }
  std::set<size_t> out;
  std::set<NodeId> late;
  for (const size_t group : order) {
    const bool is_late = std::ranges::any_of(groups[group].nodes, [&](NodeId node) {
      const WorkNode& work = graph.nodes()[node];
      return std::ranges::any_of(work.producers, [&](NodeId p) { return late.contains(p); }) ||
             std::ranges::any_of(plan.fusion.ops[work.op].results, [&](ValueId result) {
               const ValueId tensor = tensor_of(plan, result);
               return tensor != result && read.contains(tensor);
             });
    });
    if (!is_late) continue;
    out.insert(group);
    late.insert(groups[group].nodes.begin(), groups[group].nodes.end());
  }
  return out;
}

class Placer {
 public:
  Placer(Plan& plan, const WorkGraph& graph)
      : plan_(plan), graph_(graph), is_callers_(plan.fusion.values.size()) {
    for (const ValueId output : plan_.fusion.outputs) is_callers_[output] = 1;
    for (const ValueId input : plan_.fusion.inputs) is_callers_[input] = 1;
    for (const auto& [value, placement] : graph.placements()) plan_.placements[value] = placement;
  }

  void place_external(OpId op) {
    // A call writes all of its results, whether or not they are needed.
    for (const ValueId result : plan_.fusion.ops[op].results)
      leave(result, plan_.externals.next_id());
    plan_.externals.push_back({.op = op, .before = plan_.kernels.next_id()});
  }

  /// Appends a group's kernels and the tensors it leaves.
  Result<void> place(const ChosenGroup& group) {
    const KernelId first = plan_.kernels.next_id();
    auto placed = place(*group.scheduled, graph_.extract(group.nodes, group.views).in_plan);
    if (!placed) return placed;
    for (const NodeId node : group.nodes)
      plan_.kernels[first].ops.push_back(graph_.nodes()[node].op);
    return {};
  }
  /// Moves the facts of kernels that are placed first; kernels that repeat them use those in the
  /// plan.
  Result<void> place(ScheduledGroup& group, const std::map<ValueId, ValueId>& to_plan) {
    if (!group.segment) return fail(group.segment.error());
    ScheduledSegment& segment = *group.segment;
    const KernelId first = plan_.kernels.next_id();
    const bool repeats = group.first_kernel.has_value();
    // The kernel of the plan that is like the next one of the segment.
    KernelId same = group.first_kernel.value_or(first);
    IdMap<KernelId, KernelId> placed;  // By the segment's kernel.
    for (const KernelId id : segment.kernels.ids()) {
      KernelPlan& kernel = segment.kernels[id];
      KernelPlan made{.facts = repeats ? plan_.kernels[same].facts : std::move(kernel.facts),
                      .in_plan = composed(kernel.in_plan, to_plan),
                      .candidates = {},
                      .is_required = kernel.is_required,
                      .finishes = kernel.finishes,
                      .is_part = kernel.is_part,
                      .row_parts = kernel.row_parts};
      if (repeats) made.same_as = same;
      same = kernel_after(same);
      const size_t kept = std::min(kernel.candidates.size(), repeats ? 1 : 1 + kKeptCandidates);
      made.candidates.assign(kernel.candidates.begin(),
                             kernel.candidates.begin() + static_cast<ptrdiff_t>(kept));
      if (id == KernelId{0} && !repeats) {
        made.decisions = segment.decisions;
        made.rejections = segment.rejections;
      }
      leave_outputs(made, group.outputs, kernel.in_plan, plan_.kernels.next_id());
      placed[id] = plan_.kernels.push_back(std::move(made));
    }
    for (WorkspaceTensor tensor : segment.workspace) {
      if (tensor.value.valid()) tensor.value = to_plan.at(tensor.value);
      for_each_kernel_id(tensor, [&](KernelId& id, KernelMention) { id = placed[id]; });
      plan_.workspace.push_back(tensor);
    }
    if (!group.first_kernel) group.first_kernel = first;
    return {};
  }

  static std::map<ValueId, ValueId> composed(const std::map<ValueId, ValueId>& inner,
                                             const std::map<ValueId, ValueId>& outer) {
    if (inner.empty()) return outer;
    std::map<ValueId, ValueId> out;
    for (const auto& [mine, in_segment] : inner) {
      if (const auto found = outer.find(in_segment); found != outer.end())
        out[mine] = found->second;
    }
    return out;
  }

  /// Outputs of a kernel that other groups read lie in the workspace, unless they are outputs of
  /// the graph.
  void leave_outputs(const KernelPlan& kernel, const std::vector<ValueId>& of_group,
                     const std::map<ValueId, ValueId>& in_segment, KernelId writer) {
    for (const ValueId output : kernel.facts.fusion.outputs) {
      const ValueId mine = in_segment.empty() ? output : in_segment.at(output);
      if (std::ranges::find(of_group, mine) == of_group.end()) continue;
      leave(kernel.in_plan.at(output), writer);
    }
  }

  /// Adds the value's tensor to the workspace, unless it is the caller's.
  void leave(ValueId value, PlanStep writer) {
    const ValueId tensor = tensor_of(plan_, value);
    if (is_callers_[tensor] != 0) return;
    const auto [known, is_new] = left_.try_emplace(tensor, plan_.workspace.size());
    if (is_new) {
      plan_.workspace.push_back({.value = tensor, .bytes = graph_.bytes(tensor), .writer = writer});
    } else if (tensor == value) {
      // Values that depend on partial results are written by the kernel that finishes them.
      plan_.workspace[known->second].writer = writer;
    }
  }

 private:
  Plan& plan_;
  const WorkGraph& graph_;
  IdMap<ValueId, uint8_t> is_callers_;  ///< Inputs and outputs.
  std::map<ValueId, size_t> left_;      ///< Values in the workspace, with their index in its list.
};

}  // namespace

bool lists_wait(const Plan& plan, const WorkGraph& graph, std::span<const ChosenGroup> groups,
                const ListGroups& lists) {
  if (lists.groups.empty()) return false;
  const std::set<size_t> behind =
      overwriting_lists(plan, graph, groups, lists, running_order(graph, groups));
  if (behind.empty()) return false;
  std::set<NodeId> late;
  for (const size_t group : behind)
    late.insert(groups[group].nodes.begin(), groups[group].nodes.end());
  for (const ListGroup& list : lists.groups) {
    const Fusion& fusion = list.subgraph.fusion;
    for (const ValueId input : fusion.inputs) {
      const ValueId value = list.subgraph.in_plan.at(input);
      if (late.contains(graph.maker_of(value))) return true;
    }
    for (const OutputLayout& layout : fusion.layouts) {
      if (!layout.alias.valid()) continue;
      const auto& readers = graph.readers(list.subgraph.in_plan.at(layout.alias));
      if (std::ranges::any_of(readers, [&](NodeId reader) { return late.contains(reader); }))
        return true;
    }
  }
  return false;
}

Result<PlacedGroups> place_segments(Plan& plan, const WorkGraph& graph,
                                    std::span<const ChosenGroup> groups, ListGroups lists) {
  const std::vector<size_t> order = running_order(graph, groups);
  const std::set<size_t> behind_lists = overwriting_lists(plan, graph, groups, lists, order);
  plan.is_segmented = true;
  plan.free_ops = graph.free_ops();
  Placer placer(plan, graph);
  PlacedGroups out;
  const auto place_groups = [&](bool behind) -> Result<void> {
    for (const size_t group : order) {
      if (behind_lists.contains(group) != behind) continue;
      out.groups.push_back(groups[group].nodes);
      out.first_segment.push_back(plan.kernels.next_id());
      if (groups[group].scheduled == nullptr) {
        placer.place_external(graph.nodes()[groups[group].nodes.front()].op);
      } else if (auto placed = placer.place(groups[group]); !placed) {
        return placed;
      }
    }
    return {};
  };
  if (auto placed = place_groups(false); !placed) return fail(placed.error());
  for (ListGroup& list : lists.groups) {
    ScheduledGroup scheduled{.outputs = list.subgraph.fusion.outputs,
                             .segment = std::move(list.segment)};
    if (auto placed = placer.place(scheduled, list.subgraph.in_plan); !placed)
      return fail(placed.error());
  }
  if (auto placed = place_groups(true); !placed) return fail(placed.error());
  return out;
}

}  // namespace sinter
