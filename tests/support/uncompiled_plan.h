#pragma once

#include "runtime/compile/compile_plan.h"

namespace sinter {

/// A plan with the source of its kernels, which are not compiled: a fake driver takes any image.
/// Errors: those of emission.
Result<CompiledPlan> uncompiled(Plan plan, const CompilePlanOptions& options = {});

}  // namespace sinter
