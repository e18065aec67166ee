#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sinter {

/// A directed edge of a flow network over vertices 0 ... count-1. Capacities are >= 0; kUnlimited
/// cannot be cut.
struct FlowEdge {
  uint32_t from = 0;
  uint32_t to = 0;
  int64_t capacity = 0;
  static constexpr int64_t kUnlimited =
      int64_t{1} << 40;  ///< Far above any finite cut, far below overflow when summed.
};

/// Two of the minimum cuts between a source and a sink: true for the vertices on the source's side.
struct MinimumCuts {
  std::vector<bool> nearest_source;  ///< The cut with the fewest vertices on the source's side.
  std::vector<bool> nearest_sink;    ///< The cut with the fewest vertices on the sink's side.
};

/// The minimum cuts nearest to source and sink, from one maximum flow. Deterministic.
MinimumCuts minimum_cuts(uint32_t vertex_count, std::span<const FlowEdge> edges, uint32_t source,
                         uint32_t sink);

}  // namespace sinter
