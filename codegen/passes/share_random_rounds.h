#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Gives each call of philox_uniform in an unrolled loop a variable with the words of its last
/// call (CallForm::kSharedRounds). Four numbers in a row have all rounds of the generator in
/// common. Whether the next number is one of the same four is tested at run time, since indices may
/// be anything.
kir::Kernel share_random_rounds(kir::Kernel kernel);

}  // namespace sinter
