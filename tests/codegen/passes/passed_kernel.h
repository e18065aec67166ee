#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "codegen/cuda/cuda_emitter.h"
#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"
#include "codegen/kernel/kernel_verifier.h"

namespace sinter {

/// The kernel that a pass makes of a text. Both verify, and the result's text reads back as itself.
inline kir::Kernel passed(std::string_view text, kir::Kernel (*pass)(kir::Kernel)) {
  const auto kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.has_value()) << (kernel ? "" : kernel.error().text());
  if (!kernel) return {};
  kir::Kernel result = pass(*kernel);
  for (const KernelViolation& violation : verify_kernel(result, KernelStage::kBuilt))
    ADD_FAILURE() << violation.where << ": " << violation.message << "\n" << print(result);
  const auto again = parse_kernel(print(result));
  EXPECT_TRUE(again.has_value()) << (again ? "" : again.error().text());
  if (again) {
    EXPECT_EQ(print(*again), print(result));
  }
  return result;
}

/// Its CUDA text.
inline std::string emitted_after(std::string_view text, kir::Kernel (*pass)(kir::Kernel)) {
  return emit_cuda(passed(text, pass));
}

}  // namespace sinter
