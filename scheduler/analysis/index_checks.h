#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// A take whose indices an execution keeps, so that the caller can check their range. Ids are those
/// of the caller's graph.
struct IndexCheck {
  ValueId take;        ///< The take's result.
  ValueId index;       ///< The take's index.
  int64_t limit = 0;   ///< Elements of its axis; valid indices are 0 ... limit-1.
  size_t kept = 0;     ///< Index among the appended outputs.
  std::string name{};  ///< Name of the index; may be empty.
  friend bool operator==(const IndexCheck&, const IndexCheck&) = default;
};

struct CheckedFusion {
  Fusion fusion;
  std::vector<IndexCheck> checks{};  ///< In the order of the takes.
};

/// Appends to the caller's outputs a dense copy of every index that a take reads; takes with the
/// same index share one. Ids of the graph stay. Takes that no output needs are ignored, because
/// they do not run.
CheckedFusion with_kept_indices(const Fusion& fusion, const Binding& binding);

}  // namespace sinter
