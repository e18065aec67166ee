#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  statements and expressions are numbered in the order in which they are printed, equal
///         expressions share one id, and the tables hold nothing else. Two kernels that print alike
///         are then equal, and parse_kernel(print(kernel)) == kernel.
/// Before: ids are in range, and operands stand before their users in the table.
/// Order:  last, because every other pass leaves statements and expressions behind.
kir::Kernel canonicalize(kir::Kernel kernel);

}  // namespace sinter
