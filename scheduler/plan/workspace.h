#pragma once

#include "scheduler/plan/plan.h"

namespace sinter {

/// Tensors begin at multiples of so many bytes in a workspace, as in memory that cudaMalloc gives
/// (CUDA C++ Programming Guide, "Device Memory Accesses").
inline constexpr int64_t kWorkspaceAlignment = 256;

/// Gives the plan's workspace tensors their offsets: two share bytes only if no step needs both.
/// The order is by size, largest first, each at the lowest offset that is free for as long as it is
/// needed. Fills workspace_bytes.
void place_workspace(Plan& plan);

}  // namespace sinter
