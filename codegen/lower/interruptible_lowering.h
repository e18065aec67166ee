#pragma once

#include "scheduler/families/interruption.h"

namespace sinter {

/// Returns the families with a check for interruption before each lowering of a schedule, so that
/// compile_plan() can be interrupted between kernels. Without an interruption the results are the
/// same.
FamilySet interruptible_lowering(FamilySet families, Interruption interruption);

}  // namespace sinter
