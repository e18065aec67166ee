#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  every variable that is written is read on some path that ends in a store, an
///         asynchronous copy or the condition of one. Loops and conditions with nothing left in
///         them are removed. Barriers stay. Names stay in their tables; only statements are
///         removed.
/// Before: nothing.
/// Order:  first, so that later passes do no work for values that nobody reads.
kir::Kernel remove_dead_statements(kir::Kernel kernel);

}  // namespace sinter
