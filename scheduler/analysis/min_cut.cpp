#include "scheduler/analysis/min_cut.h"

// The only place that sees Boost's max-flow. g++ 12 warns about maybe-uninitialised values inside
// the header from -O1 on.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/property_map/property_map.hpp>
#include <boost/range/iterator_range.hpp>

#include <numeric>
#include <utility>

namespace sinter {
namespace {

using Network =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, uint32_t, uint32_t>;
using Edge = boost::graph_traits<Network>::edge_descriptor;

/// Every edge of the flow network and its reverse edge of capacity 0, grouped by the vertex they
/// leave: half edge 2i is edge i, 2i+1 its reverse.
class HalfEdges {
 public:
  HalfEdges(uint32_t vertex_count, std::span<const FlowEdge> edges)
      : edges_(edges), place_(2 * edges.size()) {
    std::vector<uint32_t> next(vertex_count + 1);
    for (const FlowEdge& edge : edges) {
      ++next[edge.from + 1];
      ++next[edge.to + 1];
    }
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (uint32_t half = 0; half < place_.size(); ++half) place_[half] = next[ends(half).first]++;
  }

  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(place_.size()); }
  /// Position of a half edge in the order of the vertices they leave.
  [[nodiscard]] uint32_t place(uint32_t half) const { return place_[half]; }
  [[nodiscard]] static uint32_t against(uint32_t half) { return half ^ 1; }
  [[nodiscard]] int64_t capacity(uint32_t half) const {
    return half % 2 == 0 ? edges_[half / 2].capacity : 0;
  }
  /// The vertex it leaves and the vertex it enters.
  [[nodiscard]] std::pair<uint32_t, uint32_t> ends(uint32_t half) const {
    const FlowEdge& edge = edges_[half / 2];
    return half % 2 == 0 ? std::pair(edge.from, edge.to) : std::pair(edge.to, edge.from);
  }

 private:
  std::span<const FlowEdge> edges_;
  std::vector<uint32_t> place_;
};

}  // namespace

std::vector<bool> minimum_cut(uint32_t vertex_count, std::span<const FlowEdge> edges,
                              uint32_t source, uint32_t sink) {
  const HalfEdges halves(vertex_count, edges);
  const uint32_t count = halves.count();
  std::vector<std::pair<uint32_t, uint32_t>> ends(count);
  std::vector<int64_t> capacity(count);
  std::vector<Edge> reverse(count);
  for (uint32_t half = 0; half < count; ++half) {
    const uint32_t place = halves.place(half);
    ends[place] = halves.ends(half);
    capacity[place] = halves.capacity(half);
    reverse[place] = Edge(ends[place].second, halves.place(HalfEdges::against(half)));
  }
  const Network network(boost::edges_are_sorted, ends.begin(), ends.end(), vertex_count, count);

  const auto of_edge = [&](auto& values) {
    return boost::make_iterator_property_map(values.begin(),
                                             boost::get(boost::edge_index, network));
  };
  const auto of_vertex = [&](auto& values) {
    return boost::make_iterator_property_map(values.begin(),
                                             boost::get(boost::vertex_index, network));
  };
  std::vector<int64_t> residual(count);
  std::vector<Edge> predecessor(vertex_count);
  std::vector<boost::default_color_type> color(vertex_count);
  std::vector<int64_t> distance(vertex_count);
  boost::boykov_kolmogorov_max_flow(network, of_edge(capacity), of_edge(residual), of_edge(reverse),
                                    of_vertex(predecessor), of_vertex(color), of_vertex(distance),
                                    boost::get(boost::vertex_index, network), source, sink);

  // The vertices that the source still reaches over unsaturated edges are the side nearest to it,
  // however the flow was found.
  std::vector<bool> reached(vertex_count, false);
  std::vector<uint32_t> frontier = {source};
  reached[source] = true;
  while (!frontier.empty()) {
    const uint32_t vertex = frontier.back();
    frontier.pop_back();
    for (const Edge edge : boost::make_iterator_range(boost::out_edges(vertex, network))) {
      const uint32_t next = boost::target(edge, network);
      if (residual[edge.idx] > 0 && !reached[next]) {
        reached[next] = true;
        frontier.push_back(next);
      }
    }
  }
  return reached;
}

}  // namespace sinter
#pragma GCC diagnostic pop
