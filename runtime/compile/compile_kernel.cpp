#include "runtime/compile/compile_kernel.h"

namespace sinter {

Result<CacheLookup> compile_kernel(const NvrtcCompiler& compiler, KernelCache& cache,
                                   const KernelSource& source, const Architecture& architecture,
                                   const CompileOptions& options) {
  const KernelKey key = kernel_key(source, embedded_device_headers(),
                                   nvrtc_options(architecture, options), compiler.identity());
  return cache.get_or_compile(key, [&] { return compiler.compile(source, architecture, options); });
}

}  // namespace sinter
