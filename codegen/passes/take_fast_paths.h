#pragma once

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// Runs unrolled loops that take logarithms on a fast path, and again from their start where that
/// was not right:
///
///     exact = true; before = x;
///     for ... { ... log.fast_path(exact, ...) ... }       one instruction, no branch
///     if (!exact) { x = before; for ... { ... log.careful(...) ... } }
///
/// Most arguments of a logarithm need one instruction and few need twenty. The branch stands behind
/// the loop and not around every element, whose work then overlaps. Loops that fill tiles take the
/// general form the second time: the careful one, though shorter, costs registers that such loops
/// do not have (docs/experiments/log_fast_path.md).
///
/// Left alone: loops of one iteration, without logarithms of f32, and those that cannot run again,
/// because they touch memory or other threads, draw random numbers, or read a tile that they write.
kir::Kernel take_fast_paths(kir::Kernel kernel);

}  // namespace sinter
