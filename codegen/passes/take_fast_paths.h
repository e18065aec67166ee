#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// After:  an unrolled loop with logarithms first runs a fast path. It runs again from its start if
///         the fast path was not exact for some argument:
///
///     exact = true; before = x;
///     for ... { ... log.fast_path(exact, ...) ... }       one instruction, no branch
///     if (!exact) { x = before; for ... { ... log.careful(...) ... } }
///
///         Most arguments of a logarithm need one instruction and few need twenty. The branch
///         follows the loop instead of enclosing every element, so the elements' instructions
///         overlap. Loops that fill tiles take the general form the second time: the careful form
///         is shorter, but needs registers that such loops do not have
///         (docs/experiments/log_fast_path.md).
/// Before: nothing. A loop is left alone if it has one iteration or no f32 logarithm, or if it
///         cannot run again: it contains another loop, accesses memory, exchanges with other
///         threads, draws random numbers, or reads a tile that it writes.
/// Order:  after pack_maxima, because this pass copies loops.
kir::Kernel take_fast_paths(kir::Kernel kernel);

}  // namespace sinter
