#include "scheduler/segmentation/list_groups.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "scheduler/cost_model.h"
#include "scheduler/tensor_list.h"

namespace sinter {
namespace {

using Members = std::span<const ListFound::Member>;

/// Copies members into a graph of their own.
class Extraction {
 public:
  explicit Extraction(const Fusion& fusion) : fusion_(fusion) {}

  Subgraph run(Members members) {
    for (const ListFound::Member& member : members) {
      for (const ValueId leaf : member.tensors) read(leaf);
    }
    for (const ListFound::Member& member : members) {
      for (const ValueId output : member.outputs) out_.fusion.outputs.push_back(use(output));
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
    if (made_[value].valid()) return made_[value];
    const Op& op = fusion_.def_of(value);
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands) operands.push_back(use(operand));
    return append(op.kind, std::move(operands), value);
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
};

/// Kernels for the members of each size, and what they take at least.
struct Apart {
  int64_t kernels = 0;
  double us = 0.0;
};

Apart apart(const ListFound& list, const DeviceLimits& limits) {
  std::map<int64_t, int64_t> sizes;  // How many members have so many elements.
  int64_t elements = 0;
  for (const ListFound::Member& member : list.members) {
    if (member.elements > 0) ++sizes[member.elements];
    elements += member.elements;
  }
  Apart out;
  for (const auto& [size, count] : sizes) {
    const int64_t tensors = count * list.slots + list.shared;
    const auto most = static_cast<int64_t>(kMaxKernelArguments);
    const int64_t kernels = (tensors + most - 1) / most;
    const double share = static_cast<double>(size * count) / static_cast<double>(elements) /
                         static_cast<double>(kernels);
    SegmentFacts part;
    part.bytes_read = static_cast<int64_t>(share * static_cast<double>(list.bytes_read));
    part.bytes_written = static_cast<int64_t>(share * static_cast<double>(list.bytes_written));
    out.kernels += kernels;
    out.us += static_cast<double>(kernels) * least_time(part, limits);
  }
  return out;
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
    const Apart alone = apart(list, limits_);
    // A launch at least, with all bytes moved.
    const auto members = std::ssize(list.members);
    const int64_t kernels = most < 2 ? members : (members + most - 1) / most;
    if (alone.kernels <= kernels) return;
    std::vector<ListGroup> groups;
    double us = static_cast<double>(list.shared_bytes) /
                mixed_bandwidth(limits_, static_cast<double>(list.shared_bytes), 0.0);
    for (int64_t i = 0; i < kernels; ++i) {
      const int64_t begin = i * members / kernels;
      const int64_t end = (i + 1) * members / kernels;
      auto made = schedule(Members(list.members).subspan(static_cast<size_t>(begin),
                                                         static_cast<size_t>(end - begin)));
      if (!made) return;
      us += made->segment.predicted_us();
      groups.push_back(std::move(*made));
    }
    if (us >= alone.us) return;
    groups.front().segment.decisions.push_back(decision(list, alone, kernels, us));
    std::ranges::move(groups, std::back_inserter(out_.groups));
    for (const ListFound::Member& member : list.members) {
      taken_.insert(member.outputs.begin(), member.outputs.end());
      for (const ValueId leaf : member.tensors) {
        if (fusion_.def_as<InputOp>(leaf) == nullptr) out_.rest.push_back(leaf);
      }
    }
  }

  [[nodiscard]] std::optional<ListGroup> schedule(Members members) const {
    ListGroup out{.subgraph = Extraction(fusion_).run(members), .segment = {}};
    auto facts = analyse_list(out.subgraph.fusion);
    if (!facts) return std::nullopt;
    auto segment = schedule_segment(std::move(*facts), limits_, options_);
    if (!segment) return std::nullopt;
    out.segment = std::move(*segment);
    return out;
  }

  static Decision decision(const ListFound& list, const Apart& alone, int64_t kernels, double us) {
    const auto candidate = [](std::string what, double total_us, std::string because) {
      return Candidate{.what = std::move(what),
                       .predicted = {.total_us = total_us},
                       .legal = true,
                       .because = std::move(because)};
    };
    const std::string together =
        fmt::format("{} for all {} tensors", kernels == 1 ? "one kernel" : "a few kernels",
                    list.members.size());
    Decision out{.question = "do tensors of different sizes share a kernel"};
    out.candidates.push_back(candidate(together, us, ""));
    out.candidates.push_back(candidate(fmt::format("{} kernels, by size", alone.kernels), alone.us,
                                       "their launches and bytes alone"));
    out.chosen = together;
    out.because =
        fmt::format("predicted {:.1f} us in {} launches, at least {:.1f} us in {}", us, kernels,
                    alone.us, alone.kernels);
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
