#include "scheduler/segmentation/group_judge.h"

#include <algorithm>

#include "scheduler/cost/cost_model.h"
#include "scheduler/segmentation/row_parts.h"

namespace sinter {

double instructions_of(const Fusion& fusion) {
  double out = 0.0;
  for (const Op& op : fusion.ops) {
    if (!std::holds_alternative<InputOp>(op.kind)) out += element_instructions(op.kind);
  }
  return out;
}

namespace {

/// Instructions for all elements, each computed once.
double slots_of_all(const Fusion& fusion) {
  double slots = 0.0;
  for (const Op& op : fusion.ops) {
    slots += issue_slots_of(fusion, op.results.front()) *
             static_cast<double>(element_count(fusion.values[op.results.front()].shape));
  }
  return slots;
}

/// Lower bound of a group's time. In addition to launch and bytes: rows too few to fill the device
/// are read no faster than their SMs can, unless they are reduced in parts, by two kernels.
double least_time_of_rows(const SegmentFacts& facts, const DeviceLimits& limits) {
  const double least_us = least_time(facts, limits);
  if (!facts.has_reduction()) return least_us;
  const auto blocks = static_cast<double>(facts.space.rows * limits.most_cluster_blocks);
  const double busy = std::clamp(blocks, 1.0, static_cast<double>(limits.sm_count));
  const double moved_us = static_cast<double>(facts.bytes_read + facts.bytes_written) /
                          (limits.l2_bytes_per_clock * limits.clock_mhz * busy);
  const CostConstants& constants = limits.cost;
  const double by_few_us = constants.launch_us + constants.ramp_us + moved_us;
  if (by_few_us <= least_us + constants.launch_us) return std::max(least_us, by_few_us);
  const std::vector<int64_t> parts = part_counts(facts, limits);
  if (!parts.empty() && rows_in_parts(facts, parts.front())) return least_us + constants.launch_us;
  return by_few_us;
}

/// The first of the families' rejections, if all reject the group.
std::optional<Rejection> refusal_of_all(const SegmentFacts& facts, const DeviceLimits& limits,
                                        const FamilySet& families) {
  // Rows and columns may get a kernel each, and so may parts of rows and what combines them.
  if (facts.has_reduction() && facts.has_outer()) return std::nullopt;
  if (facts.space.contraction && facts.in_place.empty() && !part_counts(facts, limits).empty())
    return std::nullopt;
  std::optional<Rejection> first;
  for (const Family& family : families) {
    auto refusal = refusal_of(family, facts);
    if (!refusal) return std::nullopt;
    // A rejection because the family is for another kind of segment says nothing about this one.
    const bool tells = refusal->at.valid();
    if (!first || (tells && !first->at.valid())) first = std::move(refusal);
  }
  return first;
}

/// True if a tensor that an output takes over is read as several inputs: a kernel could not tell
/// that they are the same tensor.
bool overwrites_a_view(const Subgraph& group) {
  return std::ranges::any_of(group.fusion.layouts, [&](const OutputLayout& layout) {
    return layout.alias.valid() && std::ranges::any_of(group.fusion.inputs, [&](ValueId input) {
             return input != layout.alias &&
                    group.in_plan.at(input) == group.in_plan.at(layout.alias);
           });
  });
}

}  // namespace

GroupVerdict GroupJudge::analysed(std::span<const NodeId> group, Fusion graph,
                                  WorkGraph::LeafViews views) {
  GroupVerdict verdict{.views = views};
  const double instructions = instructions_of(graph);
  for (const Op& op : graph.ops) verdict.reduces |= is_reduction(op.kind);
  auto facts = analyse_walk(std::move(graph));
  if (!facts) {
    verdict.rejection = facts.error();
    return verdict;
  }
  if (instructions > kMostInstructions) {
    verdict.rejection = {.subject = "segmentation",
                         .rule = std::string(kInstructionsRule),
                         .value = instructions,
                         .limit = kMostInstructions,
                         .unit = "instructions",
                         .remedy = "none needed: the parts run one after the other"};
    return verdict;
  }
  if (auto refusal = check_arguments(*facts)) {
    verdict.rejection = std::move(*refusal);
    return verdict;
  }
  if (auto refusal = refusal_of_all(*facts, limits_, families_)) {
    verdict.rejection = std::move(*refusal);
    return verdict;
  }
  verdict.legal = true;
  verdict.least_us = least_time_of_rows(*facts, limits_);
  verdict.issue_us =
      issue_time(slots_of_all(facts->fusion), limits_, static_cast<double>(limits_.sm_count));
  recent_.push_front({{group.begin(), group.end()}, std::move(*facts)});
  if (recent_.size() > kRecent) recent_.pop_back();
  return verdict;
}

std::optional<SegmentFacts> GroupJudge::take_facts(std::span<const NodeId> group) {
  const auto found = std::ranges::find_if(
      recent_, [&](const Recent& recent) { return std::ranges::equal(recent.nodes, group); });
  if (found == recent_.end()) return std::nullopt;
  SegmentFacts facts = std::move(found->facts);
  recent_.erase(found);
  return facts;
}

GroupJudge::Limit GroupJudge::exceeded_limit(std::span<const NodeId> group) {
  const Fusion& fusion = graph_.fusion();
  const uint32_t call = ++last_counted_;
  for (const NodeId node : group) in_group_[node] = call;
  const auto is_inside = [&](NodeId node) { return in_group_[node] == call; };
  double instructions = 0.0;
  int64_t tensors = 0;
  for (const NodeId node : group) {
    const WorkNode& work = graph_.nodes()[node];
    instructions += work.instructions;
    for (const ValueId result : fusion.ops[work.op].results)
      tensors += graph_.leaves_group(result, is_inside) ? 1 : 0;
    for (const ValueId leaf : work.leaves) {
      if (counted_[leaf] == call) continue;
      counted_[leaf] = call;
      const NodeId owner = graph_.maker_of(leaf);
      if (owner == WorkGraph::kNone || !is_inside(owner)) ++tensors;
    }
    if (instructions > kMostInstructions) return Limit::kInstructions;
    if (tensors > kMostArgumentTensors) return Limit::kTensors;
  }
  return Limit::kNone;
}

const GroupVerdict& GroupJudge::judge(std::span<const NodeId> group) { return verdict_of(group); }

GroupVerdict& GroupJudge::verdict_of(std::span<const NodeId> group) {
  if (const auto known = known_.find(group); known != known_.end()) return *known->second;
  GroupVerdict& verdict = judge_anew(group);
  known_.emplace(std::vector<NodeId>(group.begin(), group.end()), &verdict);
  return verdict;
}

GroupVerdict& GroupJudge::judge_anew(std::span<const NodeId> group) {
  if (graph_.reads_unfinished(group)) return unfinished_;
  if (graph_.reads_overwritten(group)) return overwritten_;
  if (auto refusal = pins_ == nullptr ? std::nullopt : pins_->forbids(group)) {
    GroupVerdict& verdict = forbidden_[{group.begin(), group.end()}];
    verdict.rejection = std::move(*refusal);
    return verdict;
  }
  if (const Limit limit = exceeded_limit(group); limit != Limit::kNone)
    return limit == Limit::kInstructions ? too_long_ : too_many_tensors_;
  const uint64_t hash = graph_.structure_of(group);
  if (const auto found = verdicts_.find(hash); found != verdicts_.end()) {
    ++counts_.repeated;
    return found->second;
  }
  ++counts_.analysed;
  Fusion graph = graph_.extract_graph(group, WorkGraph::LeafViews::kOps);
  // Leaves have no other shape where nothing is reshaped.
  const bool reshapes = std::ranges::any_of(
      graph.ops, [](const Op& op) { return std::holds_alternative<ReshapeOp>(op.kind); });
  GroupVerdict verdict = analysed(group, std::move(graph), WorkGraph::LeafViews::kOps);
  if (!verdict.legal && reshapes) {
    Subgraph reshaped_graph = graph_.extract(group, WorkGraph::LeafViews::kInputs);
    if (!overwrites_a_view(reshaped_graph)) {
      GroupVerdict reshaped =
          analysed(group, std::move(reshaped_graph.fusion), WorkGraph::LeafViews::kInputs);
      if (reshaped.legal) verdict = std::move(reshaped);
    }
  }
  verdict.structure = hash;
  return verdicts_.emplace(hash, std::move(verdict)).first->second;
}

void GroupJudge::refuse(std::span<const NodeId> group, Rejection why) {
  GroupVerdict& verdict = verdict_of(group);
  if (!verdict.legal) return;
  verdict.legal = false;
  verdict.rejection = std::move(why);
  refused_.push_back(&verdict);
}

void GroupJudge::allow_all() {
  for (GroupVerdict* verdict : refused_) {
    verdict->legal = true;
    verdict->rejection = {};
  }
  refused_.clear();
}

}  // namespace sinter
