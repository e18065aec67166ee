#pragma once

#include <cstdint>
#include <string_view>

#include "fusion_ir/fusion.h"

namespace sinter {

/// What a drawn graph is made of.
enum class GraphKind : uint8_t {
  kTame,    ///< Any ops on any types and shapes; values stay within 64, so that bounds stay small.
  kWild,    ///< The same without limits on values: functions meet their poles, floats overflow.
  kRows,    ///< Norms, softmax, losses and their gradients over rows, mixed with other ops.
  kFusion,  ///< random_fusion() (tests/support/random_fusion.h).
  kGraph,   ///< random_graph() (tests/support/random_graph.h).
  kList,    ///< The same for each of many tensors.
  kLong,    ///< Reductions of few long rows or columns, which are planned in parts.
};
std::string_view name_of(GraphKind kind);

struct DrawnGraph {
  GraphKind kind = GraphKind::kTame;
  Fusion fusion;
  ExtentValues extents{};
};

/// A valid graph with the sizes of its symbols. Depends on the seed alone.
DrawnGraph draw_graph(uint64_t seed);

/// Any ops on any types and shapes: what kTame, kWild and kRows are made by.
DrawnGraph draw_mixed_graph(uint64_t seed, GraphKind kind);

/// Reductions of few long rows or columns: kLong.
DrawnGraph draw_long_graph(uint64_t seed);

}  // namespace sinter
