#include "fusion_ir/passes/remove_dead_values.h"

#include "fusion_ir/rewriter.h"

namespace sinter {

std::optional<Fusion> remove_dead_values(const Fusion& fusion) {
  return rewrite(fusion, [](Rewriter&, OpId, std::span<const ValueId>) { return std::nullopt; });
}

}  // namespace sinter
