#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  a reciprocal of an f32 that is known to be at least 1 or NaN has CallForm::kOneOrMore.
///         It is emitted without the test for arguments whose reciprocal overflows or is denormal.
/// Before: ValueMinima finds the lower bounds of the expressions that are in the kernel.
/// Order:  after all passes that add expressions.
kir::Kernel choose_reciprocals(kir::Kernel kernel);

}  // namespace sinter
