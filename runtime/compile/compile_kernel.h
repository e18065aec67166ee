#pragma once

#include "runtime/cache/kernel_cache.h"
#include "runtime/compile/nvrtc_compiler.h"

namespace sinter {

/// Compiles a kernel through a cache: NVRTC runs only if neither memory nor disk has what this
/// compiler would make of this source. Errors as NvrtcCompiler::compile().
Result<CacheLookup> compile_kernel(const NvrtcCompiler& compiler, KernelCache& cache,
                                   const KernelSource& source, const Architecture& architecture,
                                   const CompileOptions& options = {});

}  // namespace sinter
