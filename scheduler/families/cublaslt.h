#pragma once

#include "scheduler/families/family.h"
#include "scheduler/families/library_matmul.h"

namespace sinter {

// cuBLASLt: NVIDIA's library computes a matrix product, and what its epilogues can do behind it.
// The family is not one of builtin_families(): a plan may take it where the set has it
// (with_cublaslt()), and compile_plan() then needs the library, or takes another candidate.
//
// It runs sums of products of two matrices, or of a batch of them, in bf16, f16, f32 or f64. Each
// matrix has one axis whose elements follow each other. Behind the product: casts to bf16, f16 or
// f32, the addition of a vector along the result's contiguous axis or of a matrix, and a relu or,
// of results of 16 bits, a GELU by tanh; one output.
//
// It refuses everything else: other types (of which f8 is summed with fewer bits than f32 on
// compute capability 9.0), reductions, further outputs, empty axes, and tensors that no leading
// dimension describes.

/// Device memory that a call may take: what NVIDIA recommends for compute capability 9.0 (cuBLAS
/// documentation, "cublasSetWorkspace", 32 MiB).
inline constexpr int64_t kCublasLtWorkspace = int64_t{32} << 20;

/// The call of a segment. The rejection says what the library cannot do.
tl::expected<LibraryMatmul, Rejection> library_matmul(const SegmentFacts& facts);

/// The family. It has no lowering: the library has the kernels.
Family cublaslt_family();

/// The set with the family, behind those that it has.
FamilySet with_cublaslt(FamilySet families);

}  // namespace sinter
