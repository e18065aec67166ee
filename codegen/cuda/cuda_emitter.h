#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/cuda/kernel_source.h"
#include "codegen/kernel/kernel_ir.h"
#include "codegen/lower/lowered_kernel.h"
#include "scheduler/plan/tensor_slots.h"

namespace sinter {

/// Prints a lowered kernel as CUDA C++. No decision is taken here, so the printed code is exactly
/// the kernel that the verifier checked. The kernel has passed verify_kernel for
/// KernelStage::kLowered; in particular no AllReduce is left and shared buffers are placed
/// (InternalError otherwise). Equal kernels give equal code.
///
/// The code includes the headers of codegen/device/ that it needs. Pointers are the first
/// arguments, in the order of the kernel's global buffers. The parameters follow in their order,
/// then the table, if there is one (kir::argument_layout).
std::string emit_cuda(const kir::Kernel& kernel);

/// How the kernel uses one of its buffers.
BufferUse use_of(const kir::Buffer& buffer);

/// The code with everything that a launch needs. `param_values` are the parameters at the planned
/// extents, in the kernel's order.
KernelSource make_kernel_source(const kir::Kernel& kernel, std::vector<int64_t> param_values);
/// The same, with the contents of its argument table.
KernelSource make_kernel_source(const LoweredKernel& lowered);

}  // namespace sinter
