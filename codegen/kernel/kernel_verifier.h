#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// State of a kernel in the pass pipeline.
enum class KernelStage : uint8_t {
  kBuilt,    ///< As lowering makes it: AllReduce, accesses of any width, shared buffers not placed.
  kLowered,  ///< Ready for the emitter.
};

struct KernelViolation {
  std::string where;    ///< "%s3", "%b0", "%e7", or "kernel".
  std::string message;  ///< With the values that break the rule.
  friend bool operator==(const KernelViolation&, const KernelViolation&) = default;
};

/// Lists the violations of a kernel's invariants; empty for a valid kernel. Invariants:
///
/// Kernel      threads are a multiple of 32 from 32 to 1024, min_blocks_per_sm >= 1; the grid
///             counts an existing parameter in steps >= 1.
/// Ids         are in range; operands of an expression have lower ids than it; a statement appears
///             in one place.
/// Buffers     alignment is a power of two; shared ones have a count and allow reading and writing;
///             when lowered they have offsets that are multiples of 16 and do not overlap. Tables
///             are global and hold no more tensors than they have places. Buffers in argument space
///             hold integers, read one by one.
/// Types       operands fit their function (op_list.def); storage types are only moved, selected or
///             cast; constants fit their type; conditions are bool; indices are i32 or i64.
/// Scopes      a variable is declared once and used between its declaration and the end of its
///             block; the index of a loop is not assigned.
/// Loops       bounds and step share the index's type; a constant step is at least 1; unrolled
///             loops have constant bounds and step.
/// Tiles       have no more bytes than the local memory of a thread; group and lane are constants
///             once unrolled loops are expanded, and in range; a vector access starts at a multiple
///             of its width. (Ranges are checked up to 65536 iterations.)
/// Accesses    name a tensor, as i32, if and only if the buffer is a table; width is a power of
///             two, at most 16 bytes when lowered; the buffer promises alignment for it; types
///             match; reads and writes are allowed by the buffer's access.
/// Matrices    are loaded in 1, 2 or 4, from shared buffers that are aligned to 16 bytes; a lane's
///             part of one is a group of 4 bytes; operands and accumulators of products have
///             enough groups, and types as mma_accumulator() says.
/// Exchange    barriers, and reductions wider than a warp, are executed by the whole block;
///             shuffles, loads and products of matrices, group barriers, register limits and other
///             reductions by the whole warp. A
///             reduction's group is a power of two that divides the block, or one with a barrier of
///             its own that fits into the block; no reduction is left when lowered.
/// Warp groups have 128 threads, which the block's are a multiple of; operands of their products
/// lie
///             in shared buffers aligned to the period of their swizzle, in lines of 32, 64 or 128
///             bytes, transposed only with 2-byte types; columns are in Wgmma::kColumns.
/// Tensor maps read a single global tensor along 1 to 5 axes; offset, outer strides and the inner
///             box are multiples of 16 bytes, a swizzle is as wide as that; copies go to shared
///             buffers that are aligned to the period of the swizzle.
/// Mbarriers   are initialised once, outside of control flow, before their first use. Constant
///             indices, parities, barrier numbers and byte counts are in range; bulk copies go from
///             global to shared memory of one type, in units of 16 bytes.
std::vector<KernelViolation> verify_kernel(const kir::Kernel& kernel, KernelStage stage);

}  // namespace sinter
