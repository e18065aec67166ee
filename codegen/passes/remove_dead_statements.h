#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  every variable that is written is read on some path that ends in a store, an
/// asynchronous
///         copy or the condition of one; loops and conditions with nothing left in them are gone.
///         Barriers stay.
/// Before: nothing.
/// Order:  first, so that later passes do no work for values that nobody reads. Names stay in their
///         tables; only statements go.
kir::Kernel remove_dead_statements(kir::Kernel kernel);

}  // namespace sinter
