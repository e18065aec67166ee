#include "scheduler/segmentation/list_groups.h"
#include "scheduler/segmentation/offers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "fusion_ir/operand_walk.h"
#include "scheduler/analysis/tensor_list.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/families/pointwise.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/schedule/family_names.h"

namespace sinter {
namespace {

using Members = std::span<const ListFound::Member>;

/// Copies members into a graph of their own.
class MemberCopies {
 public:
  explicit MemberCopies(const Fusion& fusion) : fusion_(fusion) {
    for (size_t i = 0; i < fusion.layouts.size(); ++i) {
      if (fusion.layouts[i].alias.valid()) aliases_[fusion.outputs[i]] = fusion.layouts[i].alias;
    }
  }

  Subgraph run(Members members) {
    for (const ListFound::Member& member : members) {
      for (const ValueId leaf : member.tensors) read(leaf);
    }
    for (const ListFound::Member& member : members) {
      for (const ValueId output : member.outputs) {
        OutputLayout layout;
        if (const auto alias = aliases_.find(output); alias != aliases_.end())
          layout = {.alignment = fusion_.def_as<InputOp>(alias->second)->alignment,
                    .alias = made_[alias->second]};
        out_.fusion.add_output(use(output), layout);
      }
    }
    const ValueId first = members.front().outputs.front();
    const std::string& name = fusion_.values[first].name;
    out_.fusion.name =
        fmt::format("{}_{}", fusion_.name, name.empty() ? fmt::format("v{}", first.index) : name);
    return std::move(out_);
  }

 private:
  void read(ValueId leaf) {
    if (made_[leaf].valid()) return;
    const auto* input = fusion_.def_as<InputOp>(leaf);
    out_.fusion.inputs.push_back(append(input != nullptr ? *input : InputOp{}, {}, leaf));
  }

  ValueId use(ValueId value) {
    walk_operands(
        fusion_, value, [&](ValueId needed) { return !made_[needed].valid(); },
        [&](ValueId needed) {
          const Op& op = fusion_.def_of(needed);
          std::vector<ValueId> operands;
          for (const ValueId operand : op.operands) operands.push_back(made_[operand]);
          append(op.kind, std::move(operands), needed);
        });
    return made_[value];
  }

  ValueId append(OpKind kind, std::vector<ValueId> operands, ValueId like) {
    const Value& info = fusion_.values[like];
    const OpId id =
        out_.fusion.ops.push_back({.kind = std::move(kind), .operands = std::move(operands)});
    const ValueId made = out_.fusion.values.push_back(
        {.type = info.type, .shape = info.shape, .def = id, .name = info.name});
    out_.fusion.ops[id].results = {made};
    out_.in_plan[made] = like;
    made_[like] = made;
    return made;
  }

  const Fusion& fusion_;
  Subgraph out_;
  IdMap<ValueId, ValueId> made_;
  std::map<ValueId, ValueId> aliases_;  ///< Inputs by the outputs that take over their memory.
};

/// Number of kernels for the members of each size, as few as kernel arguments allow.
std::map<int64_t, int64_t> kernels_by_size(const ListFound& list) {
  std::map<int64_t, int64_t> members;  // Number of members by number of elements.
  for (const ListFound::Member& member : list.members) {
    if (member.elements > 0) ++members[member.elements];
  }
  for (auto& [size, count] : members) {
    count = (count * list.slots + list.shared + kMostArgumentTensors - 1) / kMostArgumentTensors;
  }
  return members;
}

/// Predicted time of these kernels: each is a run of elements under the schedule of the list's
/// kernel, so that they differ only in launches, ramps and the search.
double apart_us(const ListFound& list, const std::map<int64_t, int64_t>& kernels,
                const SegmentFacts& member, const Schedule& of_list, const DeviceLimits& limits) {
  std::map<int64_t, int64_t> elements;
  int64_t all = 0;
  for (const ListFound::Member& one : list.members) {
    elements[one.elements] += one.elements;
    all += one.elements;
  }
  Schedule schedule = of_list;
  schedule.family = kPointwise;
  SegmentFacts part = member;
  double us = 0.0;
  for (const auto& [size, count] : kernels) {
    const double share = static_cast<double>(elements[size]) / static_cast<double>(all * count);
    part.space.columns = elements[size] / count;
    part.space.dimensions = {{.size = part.space.columns, .reduced = false}};
    part.bytes_read = static_cast<int64_t>(share * static_cast<double>(list.bytes_read));
    part.bytes_written = static_cast<int64_t>(share * static_cast<double>(list.bytes_written));
    const auto estimate = estimate_pointwise(part, schedule, limits);
    const double one_us = estimate ? predict_pointwise(part, schedule, *estimate, limits).total_us
                                   : least_time(part, limits);
    us += static_cast<double>(count) * one_us;
  }
  return us;
}

class Chooser {
 public:
  Chooser(const Fusion& fusion, const DeviceLimits& limits, const PlanOptions& options)
      : fusion_(fusion), limits_(limits), options_(options) {}

  ListGroups run() {
    for (const ListFound& list : find_lists(fusion_)) consider(list);
    if (out_.groups.empty()) return {};
    for (const ValueId output : fusion_.outputs) {
      if (!taken_.contains(output)) out_.rest.push_back(output);
    }
    std::ranges::sort(out_.rest);
    out_.rest.erase(std::ranges::unique(out_.rest).begin(), out_.rest.end());
    return std::move(out_);
  }

 private:
  void consider(const ListFound& list) {
    const int64_t most = most_list_members(list.slots, list.shared);
    const std::map<int64_t, int64_t> by_size = kernels_by_size(list);
    int64_t apart = 0;
    for (const auto& [size, count] : by_size) apart += count;
    const auto members = std::ssize(list.members);
    const int64_t kernels = most < 2 ? members : (members + most - 1) / most;
    if (apart <= kernels) return;
    std::vector<ListGroup> groups;
    double us = static_cast<double>(list.shared_bytes) /
                mixed_bandwidth(limits_, static_cast<double>(list.shared_bytes), 0.0);
    for (int64_t i = 0; i < kernels; ++i) {
      const int64_t begin = i * members / kernels;
      const int64_t end = (i + 1) * members / kernels;
      auto made =
          schedule(Members(list.members)
                       .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
      if (!made) return;
      us += made->segment.predicted_us();
      groups.push_back(std::move(*made));
    }
    const KernelPlan& first = groups.front().segment.kernels.front();
    const double us_apart =
        apart_us(list, by_size, first.facts.list->member, first.chosen().schedule, limits_);
    // Among equals fewer kernels win: the host's launch time is not in the predictions.
    if (us >= us_apart * (1.0 + kTieShare)) return;
    groups.front().segment.decisions.push_back(
        decision(list, {.kernels = kernels, .us = us}, {.kernels = apart, .us = us_apart}));
    std::ranges::move(groups, std::back_inserter(out_.groups));
    for (const ListFound::Member& member : list.members) {
      taken_.insert(member.outputs.begin(), member.outputs.end());
      for (const ValueId leaf : member.tensors) {
        if (fusion_.def_as<InputOp>(leaf) == nullptr) out_.rest.push_back(leaf);
      }
    }
  }

  [[nodiscard]] std::optional<ListGroup> schedule(Members members) const {
    ListGroup out{.subgraph = MemberCopies(fusion_).run(members), .segment = {}};
    auto facts = analyse_list(out.subgraph.fusion);
    if (!facts) return std::nullopt;
    auto segment = schedule_segment(std::move(*facts), limits_, options_);
    if (!segment) return std::nullopt;
    out.segment = std::move(*segment);
    return out;
  }

  struct Way {
    int64_t kernels = 0;
    double us = 0.0;
  };
  static Decision decision(const ListFound& list, const Way& together, const Way& apart) {
    const auto candidate = [](std::string what, double total_us) {
      return Candidate{.what = std::move(what),
                       .predicted = {.total_us = total_us},
                       .legal = true,
                       .because = {}};
    };
    Decision out{.question = "do tensors of different sizes share a kernel"};
    out.chosen = fmt::format("{} tensors in {} kernel(s)", list.members.size(), together.kernels);
    out.candidates.push_back(candidate(out.chosen, together.us));
    out.candidates.push_back(
        candidate(fmt::format("{} kernels, by size", apart.kernels), apart.us));
    out.because = fmt::format("predicted {:.1f} us in {} launch(es), {:.1f} us in {}", together.us,
                              together.kernels, apart.us, apart.kernels);
    return out;
  }

  const Fusion& fusion_;
  const DeviceLimits& limits_;
  const PlanOptions& options_;
  ListGroups out_;
  std::set<ValueId> taken_;  ///< Outputs of lists.
};

}  // namespace

ListGroups choose_lists(const Fusion& fusion, const DeviceLimits& limits,
                        const PlanOptions& options) {
  return Chooser(fusion, limits, options).run();
}

}  // namespace sinter
