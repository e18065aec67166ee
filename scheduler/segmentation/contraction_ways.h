#pragma once

#include <vector>

#include "fusion_ir/fusion.h"
#include "fusion_ir/result.h"
#include "scheduler/plan/plan_options.h"

namespace sinter {

/// A graph in which a family runs every contraction that is left, and a decision for each
/// contraction of the graph before.
struct ContractionWays {
  Fusion fusion;
  std::vector<Decision> decisions;
  bool expands = false;  ///< Some contractions are computed element by element.
};

/// Chooses how each contraction of a specialised graph is computed: by a kernel that contracts, or
/// element by element, by pointwise ops and a reduction. A family of the options must offer a
/// kernel for the contraction alone that is predicted to be faster than the one of the reduction. A
/// pinned family or schedule, and PlanOptions::contracting, rule out the other way. A plan that
/// follows another one contracts as that does. Simplifies the graph if the options say so, or else
/// removes unused ops. Errors: Unsupported (a contraction of more than 2^60 pairs of elements).
Result<ContractionWays> choose_contraction_ways(Fusion fusion, const DeviceLimits& limits,
                                                const PlanOptions& options);

}  // namespace sinter
