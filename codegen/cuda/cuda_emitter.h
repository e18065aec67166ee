#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/cuda/kernel_source.h"
#include "codegen/kernel/kernel_ir.h"
#include "codegen/lower/lowered_kernel.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {

/// Prints a lowered kernel as CUDA C++: no decision is taken here, so what is printed is what the
/// verifier saw. The kernel has passed verify_kernel for KernelStage::kLowered; in particular no
/// AllReduce is left and shared buffers are placed (InternalError otherwise). Equal kernels give
/// equal text.
///
/// The text includes those headers of codegen/device/ that it needs. Pointers are the first
/// arguments, in the order of the kernel's global buffers, then the parameters in their order, and
/// at last the table, if there is one (kir::argument_layout).
std::string emit_cuda(const kir::Kernel& kernel);

/// What the kernel does with one of its buffers.
BufferUse use_of(const kir::Buffer& buffer);

/// The text with all that a launch needs. `param_values` are the parameters at the planned extents,
/// in the kernel's order.
KernelSource make_kernel_source(const kir::Kernel& kernel, std::vector<int64_t> param_values);
/// The same with what its table holds.
KernelSource make_kernel_source(const LoweredKernel& lowered);

}  // namespace sinter
