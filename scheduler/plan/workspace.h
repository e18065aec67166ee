#pragma once

#include "scheduler/plan/plan.h"

namespace sinter {

/// Alignment of tensors in a workspace in bytes, as of memory that cudaMalloc returns (CUDA C++
/// Programming Guide, "Device Memory Accesses").
inline constexpr int64_t kWorkspaceAlignment = 256;

/// Assigns offsets to the plan's workspace tensors: two share bytes only if no step needs both.
/// Tensors are placed by size, largest first, each at the lowest offset that is free while it is
/// needed. Sets workspace_bytes.
void place_workspace(Plan& plan);

}  // namespace sinter
