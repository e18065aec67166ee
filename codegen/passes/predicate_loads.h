#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Replaces `if` statements that hold nothing but loads from global memory into tiles by these
/// loads under a predicate (Load::predicate). A branch would keep them from being issued together
/// with the loads before it.
kir::Kernel predicate_loads(kir::Kernel kernel);

}  // namespace sinter
