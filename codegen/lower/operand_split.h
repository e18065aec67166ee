#pragma once

#include "codegen/lower/program_scope.h"

namespace sinter {

/// Lowers a Split: each thread of the splitting warps takes chunks of a stage (i32) of the tile.
/// The chunks lie in order in both tiles, whatever the swizzle. A ProxyFence has to follow, and
/// what tells the warp groups that multiply.
void lower_split(const ProgramScope& scope, const program::Split& split, kir::ExprId stage);

}  // namespace sinter
