#include "scheduler/segmentation/segmented_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "fusion_ir/match.h"
#include "scheduler/offers.h"
#include "scheduler/segmentation/cuts.h"
#include "scheduler/segmentation/node_moves.h"

namespace sinter {
namespace {

/// Candidates that a segment keeps beside the chosen one, for re-planning; a plan of thousands of
/// segments would otherwise be gigabytes.
constexpr size_t kKeptCandidates = 8;

/// Times that groups are made anew without what turned out slow; what is slow then falls into the
/// parts it was merged from. Graphs settle in two or three.
constexpr int kMostRounds = 12;

/// Nodes of a graph that is grouped in every order of merges: more would lengthen planning.
constexpr size_t kMostNodesInAllOrders = 64;

/// Nodes of a graph whose groups also grow one by one; in larger ones they only grow in rounds,
/// which of random graphs of 300 ops and more makes the faster plans too.
constexpr size_t kMostNodesOneByOne = 192;

/// Nodes of a graph in which single nodes are moved from group to group: likewise.
constexpr size_t kMostNodesMoved = 16;

class SegmentedPlanner {
 public:
  SegmentedPlanner(Plan& plan, const PlanOptions& options, ListGroups lists,
                   std::optional<double> bar_us)
      : plan_(plan), options_(options), lists_(std::move(lists)), bar_us_(bar_us) {
    for (const ValueId output : plan_.fusion.outputs) is_callers_[output] = 1;
    for (const ValueId input : plan_.fusion.inputs) is_callers_[input] = 1;
  }

  Result<void> run() {
    do {
      if (auto made = make_graph(); !made) return made;
      schedules_.emplace(graph(), plan_.limits, options_);
    } while (copy_bound());
    if (auto pinned = pin_groups(); !pinned) return pinned;
    choose_groups();
    if (bar_us_ && predicted_us(groups_) >= *bar_us_) return {};
    const std::vector<size_t> order = running_order();
    const std::set<size_t> behind_lists = overwriting_lists(order);
    if (lists_wait(behind_lists)) {
      // Without lists there is an order.
      lists_ = {};
      groups_.clear();
      return run();
    }
    plan_.is_segmented = true;
    for (const auto& [value, placement] : graph().placements()) plan_.placements[value] = placement;
    Partition in_order;
    std::vector<size_t> segment_of;
    const auto place_groups = [&](bool behind) -> Result<void> {
      for (const size_t group : order) {
        if (behind_lists.contains(group) != behind) continue;
        in_order.push_back(groups_[group].nodes);
        segment_of.push_back(plan_.segments.size());
        if (groups_[group].scheduled == nullptr) {
          place_external(graph().nodes()[groups_[group].nodes.front()].op);
        } else if (auto placed = place(groups_[group]); !placed) {
          return placed;
        }
      }
      return {};
    };
    if (auto placed = place_groups(false); !placed) return placed;
    for (ListGroup& list : lists_.groups) {
      ScheduledGroup scheduled{.fusion = std::move(list.subgraph.fusion),
                               .segment = std::move(list.segment)};
      if (auto placed = place(scheduled, list.subgraph.in_plan); !placed) return placed;
    }
    if (auto placed = place_groups(true); !placed) return placed;
    plan_.cuts = find_cuts(graph(), *judge_, *schedules_, in_order, segment_of, pins_,
                           graph().size() <= kMostNodesInAllOrders);
    std::vector<size_t> segment_of_node(graph().size());
    for (size_t group = 0; group < in_order.size(); ++group) {
      for (const NodeId node : in_order[group]) segment_of_node[node] = segment_of[group];
    }
    plan_.decisions = pin_decisions(graph(), options_, segment_of_node);
    std::ranges::move(copies_, std::back_inserter(plan_.decisions));
    return {};
  }

 private:
  struct Group {
    std::vector<NodeId> nodes;
    WorkGraph::LeafViews views = WorkGraph::LeafViews::kOps;
    ScheduledGroup* scheduled = nullptr;  ///< Null: an external call.
  };

  [[nodiscard]] const WorkGraph& graph() const { return *graph_; }
  [[nodiscard]] bool is_external(NodeId node) const { return graph().nodes()[node].is_external; }

  /// The graph's nodes. Where one cannot run alone, what it is computed from for free gets an owner
  /// and goes to memory: a broadcast that a reduction undoes, say.
  Result<void> make_graph() {
    while (true) {
      graph_.emplace(plan_.fusion, plan_.limits, kept_,
                     lists_.groups.empty() ? plan_.fusion.outputs : lists_.rest);
      GroupJudge& judge = judge_.emplace(graph(), plan_.limits, options_.families);
      const size_t before = kept_.size();
      std::optional<NodeId> stuck;
      for (NodeId node = 0; node < graph().size(); ++node) {
        if (is_external(node) || judge.judge(std::span(&node, 1)).legal) continue;
        stuck = node;
        for (const ValueId operand : plan_.fusion.ops[graph().nodes()[node].op].operands) {
          if (graph().is_free(operand) && plan_.fusion.def_as<InputOp>(operand) == nullptr)
            kept_.insert(plan_.fusion.values[operand].def);
        }
      }
      if (!stuck) return {};
      if (kept_.size() > before) continue;
      const std::span<const NodeId> alone(&*stuck, 1);
      if (const ValueId output = overwriting_output(*stuck); output.valid()) {
        copy_behind_readers(output, judge.judge(alone).rejection);
        continue;
      }
      return fail(
          unsupported(graph().extract(alone).fusion, {judge.judge(alone).rejection},
                      fmt::format("no kernel runs {} of the fusion '{}', even alone",
                                  text_of(plan_.fusion.ops[graph().nodes()[*stuck].op].kind),
                                  plan_.fusion.name)));
    }
  }

  /// The output with which a node overwrites an input that it reads; invalid if there is none.
  [[nodiscard]] ValueId overwriting_output(NodeId node) const {
    for (const ValueId result : plan_.fusion.ops[graph().nodes()[node].op].results) {
      if (graph().alias_of(result).valid()) return result;
    }
    const auto input = graph().reads_overwritten(std::span(&node, 1));
    if (!input) return {};
    const auto joined = std::ranges::find(plan_.fusion.outputs, *input,
                                          [&](ValueId output) { return graph().alias_of(output); });
    return *joined;
  }

  /// Leaves the value of an output in the workspace, and has a kernel copy it to the input whose
  /// memory the output takes over, when everything has read that.
  void copy_behind_readers(ValueId output, const Rejection& why) {
    Fusion& fusion = plan_.fusion;
    const Value value = fusion.values[output];
    fusion.values[output].name.clear();  // Two of one name could not be pinned.
    const OpId id = fusion.ops.push_back(
        {.kind = BroadcastOp{all_axes(value.shape.size())}, .operands = {output}});
    const ValueId copy = fusion.values.push_back(
        {.type = value.type, .shape = value.shape, .def = id, .name = value.name});
    fusion.ops[id].results = {copy};
    kept_.insert(fusion.values[output].def);
    std::ranges::replace(fusion.outputs, output, copy);
    std::ranges::replace(lists_.rest, output, copy);
    plan_.placements[copy] = plan_.placements.extract(output).mapped();
    is_callers_[output] = 0;
    is_callers_[copy] = 1;
    copies_.push_back(
        {.question = fmt::format("is {} computed in the memory of {}", pinned_text(fusion, copy),
                                 pinned_text(fusion, plan_.placements[copy].in)),
         .chosen = "no, copied there at last",
         .because = why.rule});
  }

  /// Outputs that no kernel writes into the memory of an input that it, or one behind it, reads,
  /// get a copy. True if there are any.
  bool copy_bound() {
    for (const WorkGraph::Bound& bound : graph().bound()) {
      Rejection why{.rule = "a call lies between what reads the input and what overwrites it"};
      if (std::ranges::none_of(bound.nodes, [&](NodeId node) { return is_external(node); })) {
        const GroupVerdict& verdict = judge_->judge(bound.nodes);
        if (verdict.legal && schedules_->of(bound.nodes, verdict.views).segment) continue;
        why.rule = verdict.legal ? "no schedule runs what reads the input and what overwrites it"
                                 : verdict.rejection.rule;
      }
      copy_behind_readers(bound.output, why);
      return true;
    }
    return false;
  }

  /// Looks pins up, and refuses groups that no kernel runs.
  Result<void> pin_groups() {
    auto pins = SegmentPins::resolve(graph(), options_);
    if (!pins) return fail(pins.error());
    pins_ = std::move(*pins);
    if (pins_.empty()) return {};
    GroupJudge& judge = judge_.emplace(graph(), plan_.limits, options_.families, &pins_);
    for (const std::vector<NodeId>& group : pins_.groups()) {
      const GroupVerdict& verdict = judge.judge(group);
      ScheduledGroup* scheduled = verdict.legal ? &schedules_->of(group, verdict.views) : nullptr;
      if (scheduled != nullptr && scheduled->segment) continue;
      std::vector<std::string> joined;
      std::vector<OpId> ops;
      for (const NodeId node : group) {
        ops.push_back(graph().nodes()[node].op);
        joined.push_back(pinned_text(plan_.fusion, plan_.fusion.ops[ops.back()].results.front()));
      }
      Error error = scheduled != nullptr ? scheduled->segment.error()
                                         : unsupported(graph().extract(group).fusion,
                                                       {verdict.rejection}, std::string());
      error.message =
          fmt::format("no kernel makes what is pinned to one: {}{}", fmt::join(joined, ", "),
                      error.message.empty() ? "" : ": " + error.message);
      error.ops = std::move(ops);
      return fail(std::move(error));
    }
    return {};
  }

  /// The pinned groups, which nothing takes apart.
  [[nodiscard]] std::vector<MergeTree> pinned_trees(GroupJudge& judge) const {
    std::vector<MergeTree> out;
    for (const std::vector<NodeId>& group : pins_.groups()) {
      if (group.size() > 1) out.push_back({.nodes = group, .verdict = judge.judge(group)});
    }
    return out;
  }

  /// Takes the order of merges that gives the least time; large graphs get one order.
  void choose_groups() {
    GroupSchedules& schedules = *schedules_;
    std::vector<MergeOrder> orders;
    if (graph().size() <= kMostNodesOneByOne) orders.push_back({});
    if (graph().size() > kMostNodesInAllOrders) orders.push_back({.in_rounds = true});
    if (graph().size() <= kMostNodesInAllOrders) {
      using enum MergeOrder::First;
      orders.push_back({.backwards = true});
      for (const MergeOrder::First first : {kNothing, kReductions, kReady, kLargeReady}) {
        for (const bool backwards : {false, true})
          orders.push_back({.backwards = backwards, .first = first});
      }
    }
    for (const MergeOrder order : orders) {
      std::vector<Group> groups = settled(*judge_, schedules, order);
      judge_->allow_all();
      if (groups_.empty() || predicted_us(groups) < predicted_us(groups_))
        groups_ = std::move(groups);
      if (bar_us_ && predicted_us(groups_) >= *bar_us_) return;
    }
    if (graph().size() > kMostNodesMoved) return;
    Partition partition;
    for (const Group& group : groups_) partition.push_back(group.nodes);
    groups_.clear();
    for (std::vector<NodeId>& nodes : move_nodes(graph(), *judge_, schedules, std::move(partition)))
      groups_.push_back(group_of(nodes, *judge_, schedules));
  }

  Group group_of(const std::vector<NodeId>& nodes, GroupJudge& judge, GroupSchedules& schedules) {
    if (is_external(nodes.front())) return {.nodes = nodes};
    const WorkGraph::LeafViews views = judge.judge(nodes).views;
    return {.nodes = nodes, .views = views, .scheduled = &schedules.of(nodes, views)};
  }

  static double predicted_us(const std::vector<Group>& groups) {
    double us = 0.0;
    for (const Group& group : groups) us += group.scheduled ? group.scheduled->predicted_us() : 0.0;
    return us;
  }

  /// Groups nodes, and again those of merges whose kernels turn out slower than two would be.
  std::vector<Group> settled(GroupJudge& judge, GroupSchedules& schedules, MergeOrder order) {
    std::vector<MergeTree> trees =
        group_greedily(graph(), judge, order, pinned_trees(judge)).groups;
    for (int round = 0; round < kMostRounds; ++round) {
      bool refused = false;
      for (const MergeTree& tree : trees) {
        if (!is_external(tree.nodes.front())) refused |= refuse_slow(tree, judge, schedules);
      }
      if (!refused) break;
      std::vector<MergeTree> intact;
      for (MergeTree& tree : trees) dissolve(std::move(tree), judge, intact);
      trees = group_greedily(graph(), judge, order, std::move(intact)).groups;
    }
    std::vector<Group> out;
    for (const MergeTree& tree : trees) settle(tree, judge, schedules, out);
    return out;
  }

  /// Refuses the smallest groups in a tree that take longer than their parts; true if there are
  /// any.
  bool refuse_slow(const MergeTree& tree, GroupJudge& judge, GroupSchedules& schedules) {
    if (!schedules.is_slower_than_parts(tree)) return false;
    // Or else a part did it.
    const bool first = refuse_slow(tree.parts[0], judge, schedules);
    const bool second = refuse_slow(tree.parts[1], judge, schedules);
    if (first || second) return true;
    const double us = schedules.of(tree).predicted_us();
    judge.refuse(
        tree.nodes,
        {.subject = "segmentation",
         .rule = std::isinf(us) ? "no schedule runs both" : "one kernel takes longer than two",
         .value = std::isinf(us) ? 0.0 : us,
         .limit = schedules.best_us(tree.parts[0]) + schedules.best_us(tree.parts[1]),
         .unit = "us",
         .remedy = "none needed: the parts run one after the other"});
    return true;
  }

  /// The largest parts of a tree in which nothing is refused.
  void dissolve(MergeTree tree, GroupJudge& judge, std::vector<MergeTree>& out) const {
    if (tree.parts.empty() || is_intact(tree, judge)) {
      out.push_back(std::move(tree));
      return;
    }
    for (MergeTree& part : tree.parts) dissolve(std::move(part), judge, out);
  }
  static bool is_intact(const MergeTree& tree, GroupJudge& judge) {
    if (tree.parts.empty()) return true;
    return judge.judge(tree.nodes).legal && is_intact(tree.parts[0], judge) &&
           is_intact(tree.parts[1], judge);
  }

  /// Takes a group as it is, or its parts where these take less time.
  void settle(const MergeTree& tree, GroupJudge& judge, GroupSchedules& schedules,
              std::vector<Group>& out) {
    if (is_external(tree.nodes.front()) || !schedules.is_slower_than_parts(tree)) {
      out.push_back(group_of(tree.nodes, judge, schedules));
      return;
    }
    for (const MergeTree& part : tree.parts) settle(part, judge, schedules, out);
  }

  /// Groups, each after all it reads from. Of those that may run, the one that the walk from the
  /// outputs finishes first: what it makes is soon used up.
  [[nodiscard]] std::vector<size_t> running_order() const {
    std::vector<size_t> group_of(graph().size());
    for (size_t group = 0; group < groups_.size(); ++group) {
      for (const NodeId node : groups_[group].nodes) group_of[node] = group;
    }
    std::vector<std::vector<size_t>> next(groups_.size());
    std::vector<size_t> waits(groups_.size());
    for (size_t group = 0; group < groups_.size(); ++group) {
      std::vector<size_t> before;
      for (const NodeId node : groups_[group].nodes) {
        for (const NodeId producer : graph().nodes()[node].producers) {
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
    for (size_t group = 0; group < groups_.size(); ++group) {
      if (waits[group] == 0) ready.emplace(groups_[group].nodes.back(), group);
    }
    std::vector<size_t> order;
    while (!ready.empty()) {
      const size_t group = ready.top().second;
      ready.pop();
      order.push_back(group);
      for (const size_t later : next[group]) {
        if (--waits[later] == 0) ready.emplace(groups_[later].nodes.back(), later);
      }
    }
    SINTER_CHECK_OP(order.size(), ==, groups_.size());
    return order;
  }

  /// Groups, in the order they run, that overwrite what a list of tensors reads, and all behind
  /// them.
  [[nodiscard]] std::set<size_t> overwriting_lists(const std::vector<size_t>& order) const {
    std::set<ValueId> read;
    for (const ListGroup& list : lists_.groups) {
      for (const ValueId input : list.subgraph.fusion.inputs)
        read.insert(list.subgraph.in_plan.at(input));
    }
    std::set<size_t> out;
    std::set<NodeId> late;
    for (const size_t group : order) {
      const bool is_late = std::ranges::any_of(groups_[group].nodes, [&](NodeId node) {
        const WorkNode& work = graph().nodes()[node];
        return std::ranges::any_of(work.producers, [&](NodeId p) { return late.contains(p); }) ||
               std::ranges::any_of(plan_.fusion.ops[work.op].results, [&](ValueId result) {
                 const ValueId tensor = tensor_of(plan_, result);
                 return tensor != result && read.contains(tensor);
               });
      });
      if (!is_late) continue;
      out.insert(group);
      late.insert(groups_[group].nodes.begin(), groups_[group].nodes.end());
    }
    return out;
  }

  /// True if lists read what groups behind them make, or overwrite what those read.
  [[nodiscard]] bool lists_wait(const std::set<size_t>& behind) const {
    if (behind.empty()) return false;
    std::set<NodeId> late;
    for (const size_t group : behind)
      late.insert(groups_[group].nodes.begin(), groups_[group].nodes.end());
    for (const ListGroup& list : lists_.groups) {
      const Fusion& fusion = list.subgraph.fusion;
      for (const ValueId input : fusion.inputs) {
        const ValueId value = list.subgraph.in_plan.at(input);
        if (late.contains(graph().node_of(plan_.fusion.values[value].def))) return true;
      }
      for (const OutputLayout& layout : fusion.layouts) {
        if (!layout.alias.valid()) continue;
        const auto& readers = graph().readers(list.subgraph.in_plan.at(layout.alias));
        if (std::ranges::any_of(readers, [&](NodeId reader) { return late.contains(reader); }))
          return true;
      }
    }
    return false;
  }

  void place_external(OpId op) {
    // A call writes all of its results, whoever needs them.
    for (const ValueId result : plan_.fusion.ops[op].results)
      leave(result, plan_.externals.size(), Writer::kExternal);
    plan_.externals.push_back({.op = op, .before = plan_.segments.size()});
  }

  /// Appends a group's kernels and the tensors it leaves.
  Result<void> place(const Group& group) {
    return place(*group.scheduled, graph().extract(group.nodes, group.views).in_plan);
  }
  Result<void> place(ScheduledGroup& group, const std::map<ValueId, ValueId>& to_plan) {
    if (!group.segment) return fail(group.segment.error());
    const ScheduledSegment& segment = *group.segment;
    const size_t first = plan_.segments.size();
    for (size_t i = 0; i < segment.kernels.size(); ++i) {
      const SegmentPlan& kernel = segment.kernels[i];
      SegmentPlan made{.facts = kernel.facts,
                       .in_plan = composed(kernel.in_plan, to_plan),
                       .candidates = {},
                       .is_required = kernel.is_required,
                       .finishes = kernel.finishes,
                       .is_part = kernel.is_part};
      const bool repeats = group.first_kernel.has_value();
      if (repeats) made.same_as = *group.first_kernel + i;
      const size_t kept = std::min(kernel.candidates.size(), repeats ? 1 : 1 + kKeptCandidates);
      made.candidates.assign(kernel.candidates.begin(),
                             kernel.candidates.begin() + static_cast<ptrdiff_t>(kept));
      if (i == 0 && !repeats) {
        made.decisions = segment.decisions;
        made.rejections = segment.rejections;
      }
      leave_outputs(made, group.fusion, kernel.in_plan, plan_.segments.size());
      plan_.segments.push_back(std::move(made));
    }
    for (WorkspaceTensor tensor : segment.workspace) {
      if (tensor.value.valid()) tensor.value = to_plan.at(tensor.value);
      tensor.writer += first;
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

  /// What a kernel writes for other groups lies in the workspace, unless it is an output.
  void leave_outputs(const SegmentPlan& kernel, const Fusion& segment,
                     const std::map<ValueId, ValueId>& in_segment, size_t writer) {
    for (const ValueId output : kernel.facts.fusion.outputs) {
      const ValueId mine = in_segment.empty() ? output : in_segment.at(output);
      if (std::ranges::find(segment.outputs, mine) == segment.outputs.end()) continue;
      leave(kernel.in_plan.at(output), writer, Writer::kSegment);
    }
  }

  /// The value's tensor lies in the workspace, unless it is the caller's.
  enum class Writer : uint8_t { kSegment, kExternal };
  void leave(ValueId value, size_t writer, Writer by) {
    const ValueId tensor = tensor_of(plan_, value);
    if (is_callers_[tensor] != 0) return;
    const auto [known, is_new] = left_.try_emplace(tensor, plan_.workspace.size());
    if (is_new) {
      plan_.workspace.push_back({.value = tensor,
                                 .bytes = graph().bytes(tensor),
                                 .writer = writer,
                                 .by_external = by == Writer::kExternal});
    } else if (tensor == value) {
      // What follows from partial results is written by the kernel that finishes them.
      plan_.workspace[known->second].writer = writer;
    }
  }

  Plan& plan_;
  const PlanOptions& options_;
  ListGroups lists_;
  IdMap<ValueId, uint8_t> is_callers_;  ///< Inputs and outputs.
  std::optional<double> bar_us_;
  std::optional<WorkGraph> graph_;
  std::optional<GroupJudge> judge_;
  std::optional<GroupSchedules> schedules_;
  SegmentPins pins_;
  std::set<OpId> kept_;             ///< Ops that have an owner although they would be free.
  std::vector<Decision> copies_{};  ///< About outputs that are copied into an input's memory.
  std::vector<Group> groups_;
  std::map<ValueId, size_t> left_;  ///< Values in the workspace, and where in its list.
};

}  // namespace

Result<void> plan_segments(Plan& plan, const PlanOptions& options, ListGroups lists,
                           std::optional<double> bar_us) {
  return SegmentedPlanner(plan, options, std::move(lists), bar_us).run();
}

}  // namespace sinter
