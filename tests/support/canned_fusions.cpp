#include "tests/support/canned_fusions.h"

#include <algorithm>

#include "tests/support/canned_groups.h"

namespace sinter {

std::span<const CannedFusion> canned_fusions() {
  static const std::vector<CannedFusion> kAll = [] {
    std::vector<CannedFusion> all;
    for (auto* group : {canned_pointwise, canned_moves, canned_reductions, canned_norms,
                        canned_losses, canned_gradients, canned_structures, canned_contractions}) {
      for (CannedFusion& fusion : group()) all.push_back(std::move(fusion));
    }
    return all;
  }();
  return kAll;
}

const CannedFusion* find_canned_fusion(std::string_view name) {
  const auto all = canned_fusions();
  const auto found = std::ranges::find(all, name, &CannedFusion::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace sinter
