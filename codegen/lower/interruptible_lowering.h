#pragma once

#include "scheduler/families/interruption.h"

namespace sinter {

/// The families with a check before they lower a schedule, so that compile_plan() with them can be
/// interrupted between its kernels. Until it is, what they answer stays the same.
FamilySet interruptible_lowering(FamilySet families, Interruption interruption);

}  // namespace sinter
