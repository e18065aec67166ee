#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/families/family.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/segmentation/group_judge.h"
#include "scheduler/segmentation/group_schedules.h"
#include "scheduler/segmentation/work_graph.h"
#include "tests/scheduler/facts_of.h"
#include "tests/support/h200.h"

namespace sinter {

/// The work graph of a fusion, with what judges and schedules its groups.
struct TextGraph {
  explicit TextGraph(Fusion graph_of) : fusion(std::move(graph_of)) {}
  explicit TextGraph(std::string_view fir) : fusion(parsed_fusion(fir)) {}
  TextGraph(const TextGraph&) = delete;
  TextGraph& operator=(const TextGraph&) = delete;

  /// The node that makes the value of this name.
  [[nodiscard]] NodeId node(std::string_view name) const {
    return graph.maker_of(named_value(fusion, name));
  }
  /// Those nodes, ascending.
  [[nodiscard]] std::vector<NodeId> nodes(const std::vector<std::string_view>& names) const {
    std::vector<NodeId> out;
    for (const std::string_view name : names) out.push_back(node(name));
    std::ranges::sort(out);
    return out;
  }

  Fusion fusion;
  FamilySet families = scheduling_families();
  PlanOptions options{.simplify = false};
  WorkGraph graph{fusion, kLimits};
  GroupJudge judge{graph, kLimits, families};
  GroupSchedules schedules{graph, kLimits, options};
};

/// Three functions, one after the other, of a tensor that no cache holds: one kernel is fastest.
inline constexpr std::string_view kChain = R"(fusion @chain {
  %v0 x : f32[4096, 4096] = input
  %v1 a : f32[4096, 4096] = exp %v0
  %v2 b : f32[4096, 4096] = sin %v1
  %v3 c : f32[4096, 4096] = tanh %v2
  return %v3
})";

/// d reads a itself and through b and c.
inline constexpr std::string_view kDiamond = R"(fusion @diamond {
  %v0 x : f32[4096, 4096] = input
  %v1 a : f32[4096, 4096] = exp %v0
  %v2 b : f32[4096, 4096] = sin %v1
  %v3 c : f32[4096, 4096] = cos %v1
  %v4 d : f32[4096, 4096] = fma %v2, %v3, %v1
  return %v4
})";

/// Every element of y needs the sum of its column: no kernel has both.
inline constexpr std::string_view kAllRowsFirst = R"(fusion @all_rows_first {
  %v0 x : f32[4096, 4096] = input
  %v1 s : f32[4096] = reduce.sum %v0 over(0)
  %v2 : f32[4096, 4096] = broadcast %v1 axes(1)
  %v3 y : f32[4096, 4096] = pow %v0, %v2
  return %v3
})";

/// A call between two functions.
inline constexpr std::string_view kCalled = R"(fusion @called {
  %v0 x : f32[4096, 4096] = input
  %v1 a : f32[4096, 4096] = exp %v0
  %v2 m : f32[4096, 4096] = external matmul %v1
  %v3 y : f32[4096, 4096] = sin %v2
  return %v3
})";

}  // namespace sinter
