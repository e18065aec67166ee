#pragma once

#include <vector>

#include "codegen/kernel/kernel_verifier.h"

namespace sinter {

/// The part of verify_kernel that concerns the launch shape, the tables and ids. When it finds
/// nothing, every id of the kernel can be looked up and every traversal ends.
void verify_tables(const kir::Kernel& kernel, KernelStage stage,
                   std::vector<KernelViolation>* violations);

}  // namespace sinter
