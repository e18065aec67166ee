#pragma once

#include "codegen/lower/program_scope.h"

namespace sinter {

/// Two numbers that TF32 holds, whose sum misses 2^-22 of an f32.
struct Tf32Parts {
  kir::ExprId first, second;
};

/// Splits an f32. Of three products of such parts (the one of both second parts is left out) the
/// sum is that of the product where it is finite. What is not finite is its own second part, and
/// its first part is 1 or -1 of its sign: as infinity it would make NaN of second parts that are 0.
Tf32Parts tf32_parts(const ProgramScope& scope, kir::ExprId x);

}  // namespace sinter
