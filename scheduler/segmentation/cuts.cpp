#include "scheduler/segmentation/cuts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "scheduler/segmentation/reachability.h"

namespace sinter {
namespace {

class Cuts {
 public:
  Cuts(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
       const Partition& groups, const SegmentPins& pins, bool tries)
      : graph_(graph),
        judge_(judge),
        schedules_(schedules),
        groups_(groups),
        pins_(pins),
        tries_(tries),
        group_of_(numbered(graph, groups)),
        reach_(successors()) {}

  std::vector<Cut> run(const std::vector<KernelId>& segment_of) {
    std::vector<Cut> out;
    for (uint32_t from = 0; from < groups_.size(); ++from) {
      if (is_external(from)) continue;
      for (const NodeId node : groups_[from]) {
        const Op& op = graph_.fusion().ops[graph_.nodes()[node].op];
        for (const ValueId value : op.results) {
          for (const NodeId reader : graph_.readers_in_memory(value)) {
            const uint32_t to = group_of_[reader];
            if (to == from || is_external(to)) continue;
            Cut cut = pins_.is_cut(value) ? Cut{.rule = Cut::Rule::kPinned} : reason(from, to);
            cut.value = value;
            cut.consumer = graph_.nodes()[reader].op;
            cut.from = segment_of[from];
            cut.to = segment_of[to];
            cut.bytes = graph_.bytes(value);
            out.push_back(std::move(cut));
          }
        }
      }
    }
    return out;
  }

 private:
  static std::vector<uint32_t> numbered(const WorkGraph& graph, const Partition& groups) {
    std::vector<uint32_t> out(graph.size());
    for (uint32_t group = 0; group < groups.size(); ++group) {
      for (const NodeId node : groups[group]) out[node] = group;
    }
    return out;
  }

  [[nodiscard]] std::vector<std::vector<uint32_t>> successors() const {
    std::vector<std::vector<uint32_t>> out(groups_.size());
    for (NodeId node = 0; node < graph_.size(); ++node) {
      for (const NodeId consumer : graph_.nodes()[node].consumers) {
        if (group_of_[consumer] != group_of_[node])
          out[group_of_[node]].push_back(group_of_[consumer]);
      }
    }
    return out;
  }

  [[nodiscard]] bool is_external(uint32_t group) const {
    return graph_.nodes()[groups_[group].front()].is_external;
  }

  Cut reason(uint32_t from, uint32_t to) {
    const auto [known, is_new] = reasons_.try_emplace({from, to});
    if (is_new) known->second = reason_anew(from, to);
    return known->second;
  }

  Cut reason_anew(uint32_t from, uint32_t to) {
    if (reach_.has_between(from, to)) return {.rule = Cut::Rule::kCycle};
    std::vector<NodeId> both;
    std::ranges::merge(groups_[from], groups_[to], std::back_inserter(both));
    const GroupVerdict& verdict = judge_.judge(both);
    if (!verdict.legal) {
      const bool is_pinned = verdict.rejection.rule == kPinnedCutRule;
      return {.rule = is_pinned ? Cut::Rule::kPinned : Cut::Rule::kRefused,
              .why = verdict.rejection};
    }
    Cut cut{.rule = Cut::Rule::kSlower};
    for (const uint32_t group : {from, to}) {
      const std::vector<NodeId>& nodes = groups_[group];
      cut.apart_us += schedules_.like(nodes, judge_.judge(nodes)).predicted_us();
    }
    cut.together_us =
        tries_ ? schedules_.like(both, verdict, &judge_).predicted_us() : verdict.least_us;
    if (std::isinf(cut.together_us)) {
      cut.rule = Cut::Rule::kRefused;
      cut.why = {.subject = "segmentation", .rule = "no schedule runs both"};
    } else if (cut.together_us < cut.apart_us) {
      cut.rule = Cut::Rule::kNotFound;
    }
    return cut;
  }

  const WorkGraph& graph_;
  GroupJudge& judge_;
  GroupSchedules& schedules_;
  const Partition& groups_;
  const SegmentPins& pins_;
  bool tries_;
  std::vector<uint32_t> group_of_;  ///< By node.
  Reachability reach_;
  std::map<std::pair<uint32_t, uint32_t>, Cut> reasons_;
};

}  // namespace

std::vector<Cut> find_cuts(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                           const PlacedGroups& placed, const SegmentPins& pins, bool tries) {
  return Cuts(graph, judge, schedules, placed.groups, pins, tries).run(placed.first_segment);
}

}  // namespace sinter
