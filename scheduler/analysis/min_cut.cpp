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

/// Every edge of the flow network and its reverse edge of capacity 0, ordered by the vertices that
/// they leave.
struct HalfEdges {
  HalfEdges(uint32_t vertex_count, std::span<const FlowEdge> edges)
      : ends(2 * edges.size()), capacity(2 * edges.size()), reverse(2 * edges.size()) {
    std::vector<uint32_t> next(vertex_count + 1);  // By vertex: the place of its next half edge.
    for (const FlowEdge& edge : edges) {
      ++next[edge.from + 1];
      ++next[edge.to + 1];
    }
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (const FlowEdge& edge : edges) {
      const uint32_t along = next[edge.from]++;
      const uint32_t against = next[edge.to]++;
      ends[along] = {edge.from, edge.to};
      ends[against] = {edge.to, edge.from};
      capacity[along] = edge.capacity;
      reverse[along] = Edge(edge.to, against);
      reverse[against] = Edge(edge.from, along);
    }
  }

  std::vector<std::pair<uint32_t, uint32_t>> ends;
  std::vector<int64_t> capacity;
  std::vector<Edge> reverse;
};

/// The vertices that a walk from one of them reaches. `follows(edge)`: the walk goes along the
/// edge.
template <class Follows>
std::vector<bool> reached_from(uint32_t from, const Network& network, const Follows& follows) {
  std::vector<bool> reached(boost::num_vertices(network), false);
  std::vector<uint32_t> frontier = {from};
  reached[from] = true;
  while (!frontier.empty()) {
    const uint32_t vertex = frontier.back();
    frontier.pop_back();
    for (const Edge edge : boost::make_iterator_range(boost::out_edges(vertex, network))) {
      const uint32_t next = boost::target(edge, network);
      if (!reached[next] && follows(edge)) {
        reached[next] = true;
        frontier.push_back(next);
      }
    }
  }
  return reached;
}

}  // namespace

MinimumCuts minimum_cuts(uint32_t vertex_count, std::span<const FlowEdge> edges, uint32_t source,
                         uint32_t sink) {
  HalfEdges halves(vertex_count, edges);
  const auto count = static_cast<uint32_t>(halves.ends.size());
  const Network network(boost::edges_are_sorted, halves.ends.begin(), halves.ends.end(),
                        vertex_count, count);

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
  boost::boykov_kolmogorov_max_flow(network, of_edge(halves.capacity), of_edge(residual),
                                    of_edge(halves.reverse), of_vertex(predecessor),
                                    of_vertex(color), of_vertex(distance),
                                    boost::get(boost::vertex_index, network), source, sink);

  // However the flow was found: the vertices that the source still reaches over unsaturated edges
  // are the side of the cut nearest to it, those that still reach the sink the side nearest to
  // that.
  MinimumCuts out{.nearest_source = reached_from(
                      source, network, [&](const Edge& edge) { return residual[edge.idx] > 0; }),
                  .nearest_sink = reached_from(sink, network, [&](const Edge& edge) {
                    return residual[halves.reverse[edge.idx].idx] > 0;
                  })};
  out.nearest_sink.flip();
  return out;
}

}  // namespace sinter
#pragma GCC diagnostic pop
