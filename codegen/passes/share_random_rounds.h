#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  each call of philox_uniform in an unrolled loop has CallForm::kSharedRounds and a
///         variable that keeps the words of its last call. Four consecutive numbers share all
///         rounds of the generator. Whether the next number belongs to the same four is tested at
///         run time, since its index may be any expression.
/// Before: nothing. Each loop has variables of its own, declared in front of it.
/// Order:  after take_fast_paths, which leaves loops alone that draw random numbers.
kir::Kernel share_random_rounds(kir::Kernel kernel);

}  // namespace sinter
