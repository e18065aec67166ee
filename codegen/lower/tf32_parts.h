#pragma once

#include "codegen/lower/program_scope.h"

namespace sinter {

/// Splits each f32 of a tile of registers into two numbers, which go to tiles of the same shape;
/// the first one may be the same tile. TF32 holds the first part. Instructions ignore the low 13
/// bits of the second one; what remains of both misses 2^-23 of the f32.
///
/// Of three products of such parts (the one of both second parts is left out) the sum is that of
/// the product where it is finite. What is not finite is its own second part, and its first part is
/// 1 or -1 of its sign: as infinity it would make NaN of second parts that are 0.
void split_to_tf32(const ProgramScope& scope, kir::VarId tile, kir::VarId first, kir::VarId second);

}  // namespace sinter
