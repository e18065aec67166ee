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

/// Minimum cut between source and sink: true for the vertices on the source's side. Deterministic;
/// of several minimum cuts the one nearest to the source.
std::vector<bool> minimum_cut(uint32_t vertex_count, std::span<const FlowEdge> edges,
                              uint32_t source, uint32_t sink);

}  // namespace sinter
