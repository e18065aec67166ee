#pragma once

#include <memory>
#include <string>

#include "runtime/cache/ptxas_log.h"

namespace sinter {

/// A kernel as the compiler left it: what the cache stores and a module is loaded from.
struct CompiledKernel {
  std::string entry;         ///< extern "C" name of the kernel.
  std::string architecture;  ///< As Architecture::name().
  std::string cubin;         ///< Binary ELF image for cuModuleLoadData.
  std::string log;           ///< Everything the compiler said, warnings included.
  CompiledResources resources;
  double compile_ms = 0.0;  ///< Wall time of the compilation that produced it.
  friend bool operator==(const CompiledKernel&, const CompiledKernel&) = default;
};

/// Shared between the cache and everybody who loaded the kernel from it.
using CompiledKernelPtr = std::shared_ptr<const CompiledKernel>;

}  // namespace sinter
