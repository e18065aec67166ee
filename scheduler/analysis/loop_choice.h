#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "fusion_ir/fusion.h"
#include "scheduler/analysis/axis_linking.h"
#include "scheduler/analysis/decision.h"
#include "scheduler/analysis/tensor_views.h"

namespace sinter {

/// Which axis classes of a fusion become loops, in which order, and which of them are rows.
struct LoopChoice {
  std::vector<uint32_t> nodes;  ///< Class of each loop: first the rows, then the columns.
  size_t rows = 0;              ///< Number of leading loops that are rows.
  bool inner = false;           ///< Some reduction removes the columns.
  std::set<ValueId> outer;      ///< Reductions that remove the rows, by first result.
};

/// Chooses the loops from the axes that reductions remove, or that operands of a contraction have,
/// and from the strides in memory. The failing side names reductions over axes that are neither all
/// rows, all columns nor everything, index reductions that number elements in another order than
/// the loops, and reductions or outputs of other axes beside a contraction.
tl::expected<LoopChoice, Rejection> choose_loops(const Fusion& fusion, const LinkedAxes& linked,
                                                 const TensorViews& views);

}  // namespace sinter
