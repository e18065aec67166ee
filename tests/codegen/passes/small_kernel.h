#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "codegen/kernel/kernel_parser.h"
#include "codegen/kernel/kernel_printer.h"

namespace sinter {

/// A kernel that reads %b0 (f32) and writes %b1 (bf16), both global, around such a body.
inline kir::Kernel kernel_of(std::string_view body) {
  constexpr std::string_view kHead = R"(kernel @k threads 64 min_blocks 1 grid ceil(%p0 / 1) {
  param %p0 n : i64
  buffer %b0 x : f32 global read align 16
  buffer %b1 y : bf16 global write align 16
)";
  auto kernel = parse_kernel(fmt::format("{}{}}}", kHead, body));
  EXPECT_TRUE(kernel.has_value()) << (kernel ? "" : kernel.error().text());
  return kernel ? *kernel : kir::Kernel{};
}

/// Its text after those tensors.
inline std::string body_of(const kir::Kernel& kernel) {
  const std::string text = print(kernel);
  return text.substr(text.find("align 16\n", text.find("%b1")) + 9);
}

}  // namespace sinter
