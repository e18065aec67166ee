#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusion_ir/fusion.h"

namespace sinter {

/// A take whose indices an execution leaves behind, for whoever asks whether they were inside. Ids
/// are those of the graph as the caller wrote it.
struct IndexCheck {
  ValueId take;        ///< Its result.
  ValueId index;       ///< Its index.
  int64_t limit = 0;   ///< Elements of its axis; 0 is the lowest index inside.
  size_t kept = 0;     ///< Which of the outputs behind the caller's holds the indices.
  std::string name{};  ///< Of the index; may be empty.
  friend bool operator==(const IndexCheck&, const IndexCheck&) = default;
};

struct CheckedFusion {
  Fusion fusion;
  std::vector<IndexCheck> checks{};  ///< In the order of the takes.
};

/// Adds, behind the caller's outputs, a dense copy of every index that a take reads; takes that
/// read the same share one. Ids of the graph stay. Takes that no output needs are not looked at,
/// because they do not run.
CheckedFusion with_kept_indices(const Fusion& fusion, const Binding& binding);

}  // namespace sinter
