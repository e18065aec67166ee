#include "scheduler/min_cut.h"

// The only place that sees Boost's max-flow. g++ 12 warns about maybe-uninitialised values inside
// the header from -O1 on.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include <queue>

namespace sinter {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Edge = Traits::edge_descriptor;
using EdgeProperties =
    boost::property<boost::edge_capacity_t, int64_t,
                    boost::property<boost::edge_residual_capacity_t, int64_t,
                                    boost::property<boost::edge_reverse_t, Edge>>>;
using VertexProperties =
    boost::property<boost::vertex_color_t, boost::default_color_type,
                    boost::property<boost::vertex_distance_t, int64_t,
                                    boost::property<boost::vertex_predecessor_t, Edge>>>;
using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, VertexProperties,
                                      EdgeProperties>;

}  // namespace

std::vector<bool> minimum_cut(uint32_t vertex_count, std::span<const FlowEdge> edges,
                              uint32_t source, uint32_t sink) {
  Network network(vertex_count);
  auto capacity = boost::get(boost::edge_capacity, network);
  auto reverse = boost::get(boost::edge_reverse, network);
  for (const FlowEdge& edge : edges) {
    const Edge forward = boost::add_edge(edge.from, edge.to, network).first;
    const Edge backward = boost::add_edge(edge.to, edge.from, network).first;
    capacity[forward] = edge.capacity;
    capacity[backward] = 0;
    reverse[forward] = backward;
    reverse[backward] = forward;
  }
  boost::boykov_kolmogorov_max_flow(network, source, sink);

  // What the source still reaches over unsaturated edges is the side nearest to it, whichever way
  // the flow was found.
  const auto residual = boost::get(boost::edge_residual_capacity, network);
  std::vector<bool> reached(vertex_count, false);
  std::queue<uint32_t> frontier;
  reached[source] = true;
  frontier.push(source);
  while (!frontier.empty()) {
    const uint32_t vertex = frontier.front();
    frontier.pop();
    for (const Edge edge : boost::make_iterator_range(boost::out_edges(vertex, network))) {
      const auto next = static_cast<uint32_t>(boost::target(edge, network));
      if (residual[edge] > 0 && !reached[next]) {
        reached[next] = true;
        frontier.push(next);
      }
    }
  }
  return reached;
}

}  // namespace sinter
#pragma GCC diagnostic pop
