#include "scheduler/segmentation/segmented_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "fusion_ir/match.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/boundaries.h"
#include "scheduler/segmentation/cuts.h"
#include "scheduler/segmentation/detach_contractions.h"
#include "scheduler/segmentation/node_moves.h"
#include "scheduler/segmentation/offers.h"
#include "scheduler/segmentation/output_copies.h"
#include "scheduler/segmentation/place_segments.h"

namespace sinter {
namespace {

/// Most rounds of regrouping without the merges that turned out slower; a slow group is split into
/// the parts it was merged from. Graphs settle in two or three rounds.
constexpr int kMostRounds = 12;

/// Number of nodes from which a graph is regrouped in fewer rounds, since a round takes time linear
/// in the graph (docs/experiments/constants_choices.md).
constexpr size_t kManyNodes = 4096;
constexpr int kMostRoundsOfMany = 4;

/// Most nodes of a graph that is grouped in every merge order: more would lengthen planning.
constexpr size_t kMostNodesInAllOrders = 64;

/// Most nodes of a graph whose groups also grow one after the other. In larger ones they only grow
/// in rounds, which for random graphs of 300 ops and more also gives the faster plans.
constexpr size_t kMostNodesOneByOne = 192;

/// Most nodes of a graph in which single nodes are moved from group to group: more would lengthen
/// planning.
constexpr size_t kMostNodesMoved = 16;

/// Most reductions before a gather with which tying it is tried, and as many of the same tensor, so
/// that planning time stays linear in the graph.
constexpr int kMostTied = 32;

class SegmentedPlanner {
 public:
  SegmentedPlanner(Plan& plan, const PlanOptions& options, ListGroups lists,
                   std::optional<double> bar_us)
      : plan_(plan),
        options_(options),
        limits_(behind_another(plan.limits)),
        lists_(std::move(lists)),
        bar_us_(bar_us) {}

  Result<void> run() {
    do {
      if (auto made = make_graph(); !made) return made;
      schedules_.emplace(graph(), limits_, options_);
    } while (copy_bound());
    if (auto pinned = pin_groups(); !pinned) return pinned;
    choose_groups();
    if (bar_us_ && predicted_us(groups_) >= *bar_us_) return {};
    if (lists_wait(plan_, graph(), groups_, lists_)) {
      // Without lists an order exists.
      lists_ = {};
      groups_.clear();
      return run();
    }
    auto placed = place_segments(plan_, graph(), groups_, std::move(lists_));
    if (!placed) return fail(placed.error());
    plan_.cuts = find_cuts(graph(), *judge_, *schedules_, *placed, pins_,
                           graph().size() <= kMostNodesInAllOrders);
    std::vector<KernelId> segment_of_node(graph().size());
    for (size_t group = 0; group < placed->groups.size(); ++group) {
      for (const NodeId node : placed->groups[group])
        segment_of_node[node] = placed->first_segment[group];
    }
    plan_.decisions = pin_decisions(graph(), options_, segment_of_node);
    std::ranges::move(copies_, std::back_inserter(plan_.decisions));
    for (const Tie& tie : ties_) {
      plan_.decisions.push_back(
          {.question = fmt::format("what runs the gather {}", made_by(tie.gather)),
           .chosen = fmt::format("the kernel of {}", made_by(tie.reduction)),
           .because = fmt::format("a gather walks no axis of its own, and the reduction the one of "
                                  "{} elements that it gathers from",
                                  picked_from(tie.gather))});
    }
    return {};
  }

 private:
  [[nodiscard]] const WorkGraph& graph() const { return *graph_; }
  [[nodiscard]] bool is_external(NodeId node) const { return graph().nodes()[node].is_external; }

  /// Makes the graph's nodes. A node that cannot run alone is tied to a reduction whose kernel can
  /// run it. Otherwise a free op that it is computed from gets an owner and goes to memory, such as
  /// a broadcast whose axes a reduction reduces again.
  Result<void> make_graph() {
    while (true) {
      graph_.emplace(plan_.fusion, limits_, kept_,
                     lists_.groups.empty() ? plan_.fusion.outputs : lists_.rest);
      GroupJudge& judge = judge_.emplace(graph(), limits_, options_.families);
      const size_t before = kept_.size();
      std::optional<NodeId> stuck;
      ties_.clear();
      pins_agree_.reset();
      reductions_.clear();
      for (NodeId node = 0; node < graph().size(); ++node) {
        if (reduces(node)) reductions_.push_back(node);
      }
      for (NodeId node = 0; node < graph().size(); ++node) {
        // A gather in a reduction's kernel reads there values that the kernel has anyway.
        if (is_external(node) || tie(node, judge) || judge.judge(std::span(&node, 1)).legal)
          continue;
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

  /// A gather reads elements of the rows of a reduction. Ties it to the first reduction that walks
  /// the same axis of the same tensor, or else to the nearest before it such that one kernel can
  /// run both and all nodes between them. The tie must be compatible with the pins and all other
  /// ties. False if there is no such reduction.
  bool tie(NodeId node, GroupJudge& judge) {
    const Op& op = plan_.fusion.ops[graph().nodes()[node].op];
    if (!std::holds_alternative<TakeOp>(op.kind)) return false;
    // Contradictory pins are reported by pin_groups().
    if (!pins_agree_) pins_agree_ = SegmentPins::resolve(graph(), options_).has_value();
    if (!*pins_agree_) return true;
    if (reductions_.empty()) return false;
    int tried = 0;
    for (const ValueId leaf : graph().nodes()[node].leaves) {
      for (const NodeId reader : graph().readers(leaf)) {
        if (!reduces(reader) || ++tried > kMostTied) continue;
        if (tie(node, reader, judge)) return true;
      }
    }
    tried = 0;
    for (auto before = std::ranges::lower_bound(reductions_, node);
         before != reductions_.begin() && tried < kMostTied; ++tried) {
      if (tie(node, *--before, judge)) return true;
    }
    return false;
  }

  [[nodiscard]] bool reduces(NodeId node) const {
    return is_reduction(plan_.fusion.ops[graph().nodes()[node].op].kind);
  }

  bool tie(NodeId gather, NodeId reduction, GroupJudge& judge) {
    ties_.push_back({gather, reduction, graph().closed(std::array{gather, reduction})});
    if (goes_with_others(gather, judge)) return true;
    ties_.pop_back();
    return false;
  }

  [[nodiscard]] std::vector<std::vector<NodeId>> tied_groups() const {
    std::vector<std::vector<NodeId>> out;
    for (const Tie& tie : ties_) out.push_back(tie.nodes);
    return out;
  }

  /// Number of elements of the axis that a gather reads from.
  [[nodiscard]] int64_t picked_from(NodeId gather) const {
    const Op& op = plan_.fusion.ops[graph().nodes()[gather].op];
    const auto axis = static_cast<size_t>(std::get<TakeOp>(op.kind).axis);
    return plan_.fusion.values[op.operands.front()].shape[axis].constant();
  }

  /// "%v3 h", for the first result of a node.
  [[nodiscard]] std::string made_by(NodeId node) const {
    return pinned_text(plan_.fusion, plan_.fusion.ops[graph().nodes()[node].op].results.front());
  }

  /// True if one kernel can run the group that a gather is in, with all pins and ties.
  [[nodiscard]] bool goes_with_others(NodeId gather, GroupJudge& judge) const {
    const auto resolved = SegmentPins::resolve(graph(), options_, tied_groups());
    if (!resolved) return false;
    for (const std::vector<NodeId>& group : resolved->groups()) {
      if (std::ranges::find(group, gather) != group.end() && !judge.judge(group).legal)
        return false;
    }
    return true;
  }

  /// The output with which a node overwrites an input that it reads. Invalid if there is none, or
  /// the node is already a copy: a copy of a copy would never end.
  [[nodiscard]] ValueId overwriting_output(NodeId node) const {
    for (const ValueId result : plan_.fusion.ops[graph().nodes()[node].op].results) {
      if (copied_.contains(result)) return {};
      if (graph().alias_of(result).valid()) return result;
    }
    const auto input = graph().reads_overwritten(std::span(&node, 1));
    if (!input) return {};
    const auto joined = std::ranges::find(plan_.fusion.outputs, *input,
                                          [&](ValueId output) { return graph().alias_of(output); });
    return *joined;
  }

  /// Leaves the value of an output in the workspace, and adds a kernel that copies it to the input
  /// whose memory the output takes over, after all reads of that input.
  void copy_behind_readers(ValueId output, const Rejection& why) {
    const ValueId copy = copy_output(plan_, output);
    copied_.insert(copy);
    kept_.insert(plan_.fusion.values[output].def);
    std::ranges::replace(lists_.rest, output, copy);
    copies_.push_back({.question = fmt::format(
                           "is {} computed in the memory of {}", pinned_text(plan_.fusion, copy),
                           pinned_text(plan_.fusion, plan_.placements[copy].in)),
                       .chosen = "no, copied there at last",
                       .because = why.rule});
  }

  /// Adds a copy for outputs that no kernel can write to the memory of an input, because that
  /// kernel or a later one reads the input. True if there are any.
  bool copy_bound() {
    for (const WorkGraph::Bound& bound : graph().bound()) {
      if (copied_.contains(bound.output)) continue;
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

  /// Resolves the pins, and rejects pinned groups that no kernel runs.
  Result<void> pin_groups() {
    auto pins = SegmentPins::resolve(graph(), options_, tied_groups());
    if (!pins) return fail(pins.error());
    pins_ = std::move(*pins);
    if (pins_.empty()) return {};
    GroupJudge& judge = judge_.emplace(graph(), limits_, options_.families, &pins_);
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

  /// The pinned groups, which are never split.
  [[nodiscard]] std::vector<MergeTree> pinned_trees(GroupJudge& judge) const {
    std::vector<MergeTree> out;
    for (const std::vector<NodeId>& group : pins_.groups()) {
      if (group.size() > 1) out.push_back({.nodes = group, .verdict = &judge.judge(group)});
    }
    return out;
  }

  /// Takes the merge order that gives the least predicted time; large graphs are grouped in one
  /// order.
  void choose_groups() {
    GroupSchedules& schedules = *schedules_;
    struct Attempt {
      MergeOrder order{};
      Refuses refuses = Refuses::kSlowGroups;
    };
    std::vector<Attempt> attempts;
    if (graph().size() <= kMostNodesOneByOne) attempts.push_back({});
    if (graph().size() > kMostNodesInAllOrders) attempts.push_back({{.in_rounds = true}});
    if (graph().size() <= kMostNodesInAllOrders) {
      using enum MergeOrder::First;
      attempts.push_back({.refuses = Refuses::kSlowParts});
      attempts.push_back({{.backwards = true}});
      for (const MergeOrder::First first : {kNothing, kReductions, kReady, kLargeReady}) {
        for (const bool backwards : {false, true})
          attempts.push_back({{.backwards = backwards, .first = first}});
      }
    }
    const bool contracts = std::ranges::any_of(
        plan_.fusion.ops, [](const Op& op) { return std::holds_alternative<ContractOp>(op.kind); });
    for (size_t i = 0; i < attempts.size(); ++i) {
      const auto [order, refuses] = attempts[i];
      std::vector<ChosenGroup> groups = settled(*judge_, schedules, order, refuses);
      judge_->allow_all();
      if (groups_.empty() || predicted_us(groups) < predicted_us(groups_))
        groups_ = std::move(groups);
      const bool refused_parts =
          i + 1 == attempts.size() || attempts[i + 1].refuses == Refuses::kSlowGroups;
      // Groups with contractions may still get faster below.
      if (bar_us_ && refused_parts && !contracts && predicted_us(groups_) >= *bar_us_) return;
    }
    Partition partition;
    for (const ChosenGroup& group : groups_) partition.push_back(group.nodes);
    groups_.clear();
    partition = move_boundaries(graph(), *judge_, schedules, std::move(partition));
    partition = detach_contractions(graph(), *judge_, schedules, std::move(partition));
    if (graph().size() <= kMostNodesMoved)
      partition = move_nodes(graph(), *judge_, schedules, std::move(partition));
    for (std::vector<NodeId>& nodes : partition)
      groups_.push_back(group_of(nodes, *judge_, schedules));
  }

  ChosenGroup group_of(const std::vector<NodeId>& nodes, GroupJudge& judge,
                       GroupSchedules& schedules) {
    if (is_external(nodes.front())) return {.nodes = nodes};
    const WorkGraph::LeafViews views = judge.judge(nodes).views;
    return {.nodes = nodes, .views = views, .scheduled = &schedules.of(nodes, views)};
  }

  /// Of all kernels. No kernel is ahead of the first.
  double predicted_us(const std::vector<ChosenGroup>& groups) {
    double us = plan_.limits.cost.launch_us - limits_.cost.launch_us;
    for (const ChosenGroup& group : groups)
      us += group.scheduled ? group.scheduled->predicted_us() : 0.0;
    return us;
  }

  /// Which merges are refused once their kernels turn out slower than those of their parts.
  enum class Refuses : uint8_t {
    kSlowGroups,  ///< Merges within groups that are slower themselves.
    /// Also those within groups that are not slower: a kernel that is slow for a part may be the
    /// best for the whole only because of how its parts were merged. For example, a normalisation
    /// of few long rows reads them again in any case, so that its statistics are better computed by
    /// a separate kernel, together with the values that depend on them alone.
    kSlowParts,
  };

  /// Groups nodes, then regroups those whose merged kernels turn out slower than two would be.
  std::vector<ChosenGroup> settled(GroupJudge& judge, GroupSchedules& schedules, MergeOrder order,
                                   Refuses refuses) {
    std::vector<MergeTree> trees =
        group_greedily(graph(), judge, order, pinned_trees(judge)).groups;
    const int rounds = graph().size() < kManyNodes ? kMostRounds : kMostRoundsOfMany;
    for (int round = 0; round < rounds; ++round) {
      bool refused = false;
      for (const MergeTree& tree : trees) {
        if (!is_external(tree.nodes.front()))
          refused |= refuse_slow(tree, judge, schedules, refuses);
      }
      if (!refused) break;
      std::vector<MergeTree> intact;
      for (MergeTree& tree : trees) dissolve(std::move(tree), intact);
      trees = group_greedily(graph(), judge, order, std::move(intact)).groups;
    }
    std::vector<ChosenGroup> out;
    for (const MergeTree& tree : trees) {
      if (is_external(tree.nodes.front())) {
        out.push_back({.nodes = tree.nodes});
      } else {
        settle(tree, judge, schedules, out);
      }
    }
    return out;
  }

  // Trees may be as deep as groups are large, so the walks over them have explicit stacks.

  /// Refuses the smallest groups in a tree that take longer than their parts; true if there are
  /// any.
  bool refuse_slow(const MergeTree& tree, GroupJudge& judge, GroupSchedules& schedules,
                   Refuses refuses) {
    struct Whole {
      const MergeTree* tree;
      bool is_slow;
    };
    std::vector<Whole> wholes;  // Each before its parts, which are in reverse order.
    std::vector<const MergeTree*> open = {&tree};
    while (!open.empty()) {
      const MergeTree& whole = *open.back();
      open.pop_back();
      if (whole.parts.empty()) continue;
      const bool is_slow = schedules.is_slower_than_parts(whole);
      if (!is_slow && refuses == Refuses::kSlowGroups) continue;
      wholes.push_back({&whole, is_slow});
      for (const MergeTree& part : whole.parts) open.push_back(&part);
    }
    std::set<const MergeTree*> done;  // Trees that were refused or have a refused part.
    for (const auto& [whole, is_slow] : wholes | std::views::reverse) {
      const auto is_done = [&](const MergeTree& part) { return done.contains(&part); };
      const bool by_part = std::ranges::any_of(whole->parts, is_done);
      if (!by_part && !is_slow) continue;
      if (!by_part) refuse(*whole, judge, schedules);
      done.insert(whole);
    }
    return !done.empty();
  }

  static void refuse(const MergeTree& tree, GroupJudge& judge, GroupSchedules& schedules) {
    const double us = schedules.like(tree).predicted_us();
    judge.refuse(
        tree.nodes,
        {.subject = "segmentation",
         .rule = std::isinf(us) ? "no schedule runs both" : "one kernel takes longer than two",
         .value = std::isinf(us) ? 0.0 : us,
         .limit = schedules.best_us(tree.parts[0]) + schedules.best_us(tree.parts[1]),
         .unit = "us",
         .remedy = "none needed: the parts run one after the other"});
  }

  /// Calls `enter(whole)` for a tree, and for the parts of each tree for which it returned true. A
  /// tree comes before its parts, and these come in their order.
  template <class Tree, class Enter>
  static void for_each_whole(Tree& tree, const Enter& enter) {
    std::vector<Tree*> open = {&tree};
    while (!open.empty()) {
      Tree& whole = *open.back();
      open.pop_back();
      if (!enter(whole)) continue;
      for (Tree& part : whole.parts | std::views::reverse) open.push_back(&part);
    }
  }

  /// The largest parts of a tree that contain no refused group.
  static void dissolve(MergeTree tree, std::vector<MergeTree>& out) {
    std::vector<const MergeTree*> wholes;
    for_each_whole(tree, [&](const MergeTree& whole) {
      wholes.push_back(&whole);
      return true;
    });
    std::set<const MergeTree*> broken;
    for (const MergeTree* whole : wholes | std::views::reverse) {
      const auto is_broken = [&](const MergeTree& part) { return broken.contains(&part); };
      const bool is_refused = !whole->parts.empty() && !whole->verdict->legal;
      if (is_refused || std::ranges::any_of(whole->parts, is_broken)) broken.insert(whole);
    }
    for_each_whole(tree, [&](MergeTree& whole) {
      if (broken.contains(&whole)) return true;
      out.push_back(std::move(whole));
      whole.parts.clear();
      return false;
    });
  }

  /// Takes a group as it is, or its parts if these take less time.
  static void settle(const MergeTree& tree, GroupJudge& judge, GroupSchedules& schedules,
                     std::vector<ChosenGroup>& out) {
    for_each_whole(tree, [&](const MergeTree& whole) {
      if (schedules.is_slower_than_parts(whole)) return true;
      // Takes the kernels of an equal group, whose predicted time is the same.
      const GroupVerdict& verdict = judge.judge(whole.nodes);
      out.push_back({.nodes = whole.nodes,
                     .views = verdict.views,
                     .scheduled = &schedules.like(whole.nodes, verdict)});
      return false;
    });
  }

  Plan& plan_;
  const PlanOptions& options_;
  DeviceLimits limits_;  ///< Of kernels behind others.
  ListGroups lists_;
  std::optional<double> bar_us_;
  std::optional<WorkGraph> graph_;
  std::optional<GroupJudge> judge_;
  std::optional<GroupSchedules> schedules_;
  SegmentPins pins_;
  std::set<OpId> kept_;  ///< Ops that have an owner although they would be free.
  struct Tie {
    NodeId gather;
    NodeId reduction;
    std::vector<NodeId> nodes;  ///< Both nodes and all between them.
  };
  std::vector<Tie> ties_;           ///< Gathers, each with the reduction whose kernel runs it.
  std::vector<NodeId> reductions_;  ///< Of the graph; ascending.
  std::optional<bool> pins_agree_;  ///< Whether the caller's pins can be resolved, once known.
  std::set<ValueId> copied_{};      ///< Outputs that are copies made by copy_output().
  std::vector<Decision> copies_{};  ///< About outputs that are copied into an input's memory.
  std::vector<ChosenGroup> groups_;
};

}  // namespace

Result<void> plan_segments(Plan& plan, const PlanOptions& options, ListGroups lists,
                           std::optional<double> bar_us) {
  return SegmentedPlanner(plan, options, std::move(lists), bar_us).run();
}

}  // namespace sinter
