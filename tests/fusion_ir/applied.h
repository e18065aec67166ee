#pragma once

#include <optional>

#include "fusion_ir/rewriter.h"

namespace sinter {

/// What a pass makes of a graph, which is the graph itself where it changes nothing.
inline Fusion applied(std::optional<Fusion> (*pass)(const Fusion&), const Fusion& fusion) {
  return pass(fusion).value_or(fusion);
}

/// Likewise of rewrite().
inline Fusion rewritten(const Fusion& fusion, const RewriteFn& decide) {
  return rewrite(fusion, decide).value_or(fusion);
}

}  // namespace sinter
