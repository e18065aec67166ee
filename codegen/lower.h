#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/kernel_passes.h"
#include "codegen/kernel_source.h"
#include "scheduler/plan/plan.h"

namespace sinter {

/// A kernel with the values its parameters take at the planned extents.
struct LoweredKernel {
  kir::Kernel kernel;
  std::vector<int64_t> param_values;
  /// Of every buffer in argument space, in their order: its integers.
  std::vector<std::vector<int64_t>> argument_values{};
};

/// What a buffer in argument space holds in memory: integers of its type.
std::vector<std::byte> argument_bytes(const kir::Buffer& buffer, std::span<const int64_t> values);

/// The built-in families, complete: scheduling and lowering.
FamilySet builtin_families();

/// Lowers one schedule of a segment to a verified kernel: the family's lowering, then the kernel
/// passes. Errors: Unsupported when the
/// family is not in the set or cannot lower; InternalError for a kernel that breaks an invariant.
Result<LoweredKernel> lower(const SegmentFacts& facts, const Schedule& schedule,
                            const FamilySet& families = builtin_families(),
                            const KernelPassOptions& options = {});

/// Lowers and prints: CUDA text with its launch description.
Result<KernelSource> emit(const SegmentFacts& facts, const Schedule& schedule,
                          const FamilySet& families = builtin_families());

}  // namespace sinter
