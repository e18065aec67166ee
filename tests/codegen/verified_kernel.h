#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "codegen/kernel/kernel_verifier.h"
#include "tests/codegen/parsed_kernel.h"

namespace sinter {

/// What the verifier has against a kernel: a line for each violation.
inline std::string violations_of(const kir::Kernel& kernel,
                                 KernelStage stage = KernelStage::kBuilt) {
  std::string text;
  for (const KernelViolation& violation : verify_kernel(kernel, stage))
    text += fmt::format("{}: {}\n", violation.where, violation.message);
  return text;
}

/// A kernel of 64 threads with such a body. Buffers: %b0 x f32 global, read; %b1 y bf16 global,
/// written; %b2 s 64 f32, shared. The body may begin with more buffers, registers or mbarriers.
inline kir::Kernel kernel_with_body(std::string_view body) {
  constexpr std::string_view kHead = R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16
  buffer %b1 y : bf16 global write align 16
  buffer %b2 s : f32 shared readwrite align 16 count 64 offset 0
)";
  return parsed(fmt::format("{}{}\n}}", kHead, body));
}

/// A body that breaks one rule, and words of the message.
struct Planted {
  std::string_view body;
  std::string_view message;
  KernelStage stage = KernelStage::kBuilt;
};

}  // namespace sinter
