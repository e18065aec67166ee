#pragma once

#include "codegen/cuda/kernel_source.h"
#include "codegen/lower/lowered_kernel.h"
#include "codegen/passes/kernel_passes.h"
#include "scheduler/families/family.h"

namespace sinter {

/// The built-in families with scheduling and lowering.
FamilySet builtin_families();

/// Lowers one schedule of a segment to a verified kernel: the family's lowering, then the kernel
/// passes. Errors: Unsupported if the family is not in the set or cannot lower; InternalError for a
/// kernel that breaks an invariant.
Result<LoweredKernel> lower(const SegmentFacts& facts, const Schedule& schedule,
                            const FamilySet& families = builtin_families(),
                            const KernelPassOptions& options = {});

/// Lowers and prints: CUDA C++ code with its launch description. Of a family that a library
/// computes: the call.
Result<KernelSource> emit(const SegmentFacts& facts, const Schedule& schedule,
                          const FamilySet& families = builtin_families());

}  // namespace sinter
