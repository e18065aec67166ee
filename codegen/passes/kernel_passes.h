#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "codegen/kernel/kernel_ir.h"

namespace sinter {

/// A step from kernel to kernel. Pure: equal kernels in, equal kernels out.
struct KernelPass {
  std::string_view name;
  kir::Kernel (*function)(kir::Kernel) = nullptr;
  std::string_view reason;  ///< Why it stands where it does.
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

/// Turns a kernel as lowering makes it (KernelStage::kBuilt) into one that can be emitted
/// (KernelStage::kLowered, canonical). A kernel that does not verify is a defect of what made it:
/// InternalError that names the pass and every violation.
kir::Kernel run_kernel_passes(kir::Kernel kernel, const KernelPassOptions& options = {});

}  // namespace sinter
