#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// A function from kernel to kernel. It is pure: equal kernels give equal results.
struct KernelPass {
  std::string_view name;
  kir::Kernel (*function)(kir::Kernel) = nullptr;
  std::string_view reason;  ///< Why the pass runs at this place in the order.
};

/// All passes, in the order in which they run.
std::span<const KernelPass> kernel_passes();

struct KernelPassOptions {
#ifdef NDEBUG
  bool verify = false;
#else
  bool verify = true;  ///< Run the verifier on the input and after each pass.
#endif
  /// Called after each pass that changed the kernel.
  std::function<void(std::string_view pass, const kir::Kernel& kernel)> dump{};
  /// Run only that many passes: bisects a wrong kernel to the pass that made it.
  size_t stop_after = std::numeric_limits<size_t>::max();
};

/// Turns the result of a lowering (KernelStage::kBuilt) into a kernel that can be emitted
/// (KernelStage::kLowered, canonical). Throws InternalError if a kernel does not verify; the error
/// names the pass after which that was found and lists every violation.
kir::Kernel run_kernel_passes(kir::Kernel kernel, const KernelPassOptions& options = {});

}  // namespace sinter
