#pragma once

#include "runtime/cache/compiled_kernel.h"
#include "runtime/cache/kernel_key.h"

namespace sinter {

/// A compiled kernel with every field set, of about `cubin_bytes`, that differs with the seed.
inline CompiledKernel sample_kernel(int seed = 0, size_t cubin_bytes = 300) {
  CompiledKernel kernel;
  kernel.entry = "sample_" + std::to_string(seed);
  kernel.architecture = "sm_90a";
  for (size_t i = 0; i < cubin_bytes; ++i) {
    kernel.cubin += static_cast<char>((i * 31 + static_cast<size_t>(seed) * 7) % 256);
  }
  kernel.log = "ptxas info: sample\n";
  kernel.resources = {.registers = 40 + seed,
                      .spill_store_bytes = 8,
                      .spill_load_bytes = 12,
                      .stack_bytes = 16,
                      .shared_bytes = 1024,
                      .barriers = 2,
                      .constant_bytes = 380,
                      .wgmma_serialized = true,
                      .launch_bounds_ignored = false};
  kernel.compile_ms = 12.5;
  return kernel;
}

inline KernelKey sample_key(uint64_t seed = 0) {
  return {.high = 0x0123456789abcdef, .low = 0xfedcba9876543210 + seed};
}

}  // namespace sinter
