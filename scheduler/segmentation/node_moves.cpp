#include "scheduler/segmentation/node_moves.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace sinter {
namespace {

class Moves {
 public:
  Moves(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules)
      : graph_(graph), judge_(judge), schedules_(schedules) {}

  Partition run(Partition best) {
    double best_us = 0.0;
    for (const std::vector<NodeId>& group : best) best_us += cost_us(group);
    for (bool improved = true; improved;) {
      improved = false;
      for (NodeId node = 0; node < graph_.size() && !improved; ++node) {
        for (size_t to = 0; to < best.size() && !improved; ++to) {
          for (const Along along : {Along::kAlone, Along::kProducers, Along::kConsumers}) {
            Partition tried = with_moved(best, node, along, to);
            if (tried.empty() || !merges_save(tried, best_us)) continue;
            best = std::move(tried);
            improved = true;
            break;
          }
        }
      }
    }
    return best;
  }

 private:
  enum class Along : uint8_t { kAlone, kProducers, kConsumers };

  /// Empty if the node is already there, or an external call is involved.
  [[nodiscard]] Partition with_moved(const Partition& from, NodeId node, Along along,
                                     size_t to) const {
    if (graph_.nodes()[node].is_external || graph_.nodes()[from[to].front()].is_external) return {};
    if (std::ranges::binary_search(from[to], node)) return {};
    const auto home = std::ranges::find_if(from, [&](const std::vector<NodeId>& group) {
      return std::ranges::binary_search(group, node);
    });
    std::vector<NodeId> moved = {node};
    for (size_t i = 0; i < moved.size() && along != Along::kAlone; ++i) {
      const WorkNode& work = graph_.nodes()[moved[i]];
      for (const NodeId other : along == Along::kProducers ? work.producers : work.consumers) {
        if (std::ranges::binary_search(*home, other) &&
            std::ranges::find(moved, other) == moved.end())
          moved.push_back(other);
      }
    }
    if (along != Along::kAlone && moved.size() == 1) return {};  // The same as kAlone.
    Partition out = from;
    for (const NodeId other : moved) {
      std::erase(out[static_cast<size_t>(home - from.begin())], other);
      out[to].insert(std::ranges::upper_bound(out[to], other), other);
    }
    std::erase_if(out, [](const std::vector<NodeId>& group) { return group.empty(); });
    return out;
  }

  /// Merges pairs of groups while that saves time. True if all then take less than `us`, which is
  /// set to the new time.
  bool merges_save(Partition& groups, double& us) {
    if (!is_acyclic(groups)) return false;
    std::vector<double> costs;
    for (const std::vector<NodeId>& group : groups) costs.push_back(cost_us(group));
    for (bool merged = true; merged;) {
      merged = false;
      for (size_t a = 0; a < groups.size() && !merged; ++a) {
        for (size_t b = a + 1; b < groups.size() && !merged; ++b) {
          const bool calls = graph_.nodes()[groups[a].front()].is_external ||
                             graph_.nodes()[groups[b].front()].is_external;
          if (calls) continue;
          Partition tried = groups;
          std::vector<NodeId> both;
          std::ranges::merge(groups[a], groups[b], std::back_inserter(both));
          const double both_us = cost_us(both);
          if (both_us >= costs[a] + costs[b]) continue;
          tried[a] = std::move(both);
          tried.erase(tried.begin() + static_cast<ptrdiff_t>(b));
          if (!is_acyclic(tried)) continue;
          groups = std::move(tried);
          costs[a] = both_us;
          costs.erase(costs.begin() + static_cast<ptrdiff_t>(b));
          merged = true;
        }
      }
    }
    const double total_us = std::accumulate(costs.begin(), costs.end(), 0.0);
    if (total_us >= us) return false;
    us = total_us;
    return true;
  }

  double cost_us(const std::vector<NodeId>& group) {
    if (graph_.nodes()[group.front()].is_external) return 0.0;
    return schedules_.predicted_us(group, judge_);
  }

  [[nodiscard]] bool is_acyclic(const Partition& groups) const {
    std::vector<size_t> group_of(graph_.size());
    for (size_t group = 0; group < groups.size(); ++group) {
      for (const NodeId node : groups[group]) group_of[node] = group;
    }
    std::vector<uint8_t> done(groups.size());
    const auto can_run = [&](size_t group) {
      return std::ranges::all_of(groups[group], [&](NodeId node) {
        return std::ranges::all_of(graph_.nodes()[node].producers, [&](NodeId producer) {
          return group_of[producer] == group || done[group_of[producer]] != 0;
        });
      });
    };
    for (size_t count = 0; count < groups.size();) {
      const size_t before = count;
      for (size_t group = 0; group < groups.size(); ++group) {
        if (done[group] != 0 || !can_run(group)) continue;
        done[group] = 1;
        ++count;
      }
      if (count == before) return false;
    }
    return true;
  }

  const WorkGraph& graph_;
  GroupJudge& judge_;
  GroupSchedules& schedules_;
};

}  // namespace

Partition move_nodes(const WorkGraph& graph, GroupJudge& judge, GroupSchedules& schedules,
                     Partition groups) {
  return Moves(graph, judge, schedules).run(std::move(groups));
}

}  // namespace sinter
