#pragma once

#include <span>

#include "fusion_ir/pass.h"

namespace sinter {

/// The passes of `simplify`, in order.
std::span<const Pass> simplification_pipeline();

/// Runs the pipeline until nothing changes, so that simplify(simplify(f)) == simplify(f). Results
/// stay equal up to rounding. Works on symbolic and on specialised graphs; after `specialize` run
/// it again, because recognize_welford needs to know that rows are not empty.
Fusion simplify(const Fusion& fusion, const PassOptions& options = {});

/// The same with a record of each pass that ran.
PassRun simplify_recorded(const Fusion& fusion, const PassOptions& options = {});

}  // namespace sinter
