#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Marks reciprocals of what is known to be 1 or more, or NaN (CallForm::kOneOrMore): they need no
/// test for arguments whose reciprocal overflows or is denormal.
kir::Kernel choose_reciprocals(kir::Kernel kernel);

}  // namespace sinter
