#pragma once

#include <optional>

#include "codegen/cuda/emit.h"
#include "runtime/compile/nvrtc_compiler.h"
#include "tests/support/canned_fusions.h"

namespace sinter::bench {

/// The device that host benchmarks plan for, so that figures from different machines are about the
/// same plans.
const DeviceLimits& planned_device();

/// A canned fusion of any type at its large size, or none if it is not planned on this device.
std::optional<Plan> planned(const CannedFusion& canned);

/// simplify, analyse, plan, lower and emit of every canned fusion, each reported per op too.
void register_stages();
/// Plans of whole layers of 8192 tokens, whose matrix products are contractions and may be
/// cuBLASLt's.
void register_layers();
/// plan, simplify and emit of chains of pointwise ops, with the complexity they grow by.
void register_growth();
/// NVRTC on the layer norm kernel, and the kernel cache in memory and on disk. Without a compiler
/// these say so and are left out.
void register_compiler(const Result<NvrtcCompiler>& compiler);
/// Plan and compile_plan, with two threads, of the backward of a decoder layer of Llama-3-8B at
/// 8,192 tokens, as in a process that has just started: with nothing on disk, and with all kernels
/// there. Likewise left out without a compiler.
void register_cold_start(const Result<NvrtcCompiler>& compiler);
/// Random inputs, evaluation and comparison of a gradient, on one thread and on all idle cores;
/// each reported per element.
void register_oracle();

}  // namespace sinter::bench
